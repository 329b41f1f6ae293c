"""Entry point of manage.py and of ``crawlframe``. It imports little, because a shell that completes
a word waits for it."""

from __future__ import annotations

import os


def main() -> None:
    """Runs the command in ``sys.argv``, or completes it for a shell."""
    if "_ARGCOMPLETE" in os.environ:
        from crawlservice.cli.shells.completion import complete

        complete()
    from crawlservice.cli.dispatch import run

    run()
