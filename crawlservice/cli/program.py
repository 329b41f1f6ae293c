"""What manage.py and the entry point ``crawlframe`` run."""

from __future__ import annotations

from crawlservice.cli.dispatch import run


def main() -> None:
    """Runs the command in ``sys.argv``."""
    run()
