"""Program: how the commands of this installation are typed."""

from __future__ import annotations

import sys
from pathlib import Path

ENTRY_POINT = "crawlframe"


def command(words: str) -> str:
    """The command line that runs ``words``, for messages: ``python manage.py node list``, or
    ``crawlframe node list`` where this process was started by the entry point."""
    typed = Path(sys.argv[0]).name if sys.argv else ""
    return f"{ENTRY_POINT if typed == ENTRY_POINT else 'python manage.py'} {words}"
