"""Entry point of manage.py and of ``crawlframe``. It imports little, because a shell that completes
a word waits for it."""

from __future__ import annotations

import gc
import os


def main() -> None:
    """Runs the command in ``sys.argv``, or completes it for a shell."""
    if "_ARGCOMPLETE" in os.environ:
        from crawlservice.cli.shells.completion import complete

        complete()
    # Objects of imports stay; to look through them after each 700 takes a sixth of the time.
    gc.set_threshold(10_000)
    from crawlservice.cli.dispatch import run

    try:
        run()
    finally:
        gc.freeze()  # at its end, Python would look through all that was imported
