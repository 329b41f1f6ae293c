"""Program: how the commands of this installation are typed."""

from __future__ import annotations

import sys
from pathlib import Path

ENTRY_POINT, MANAGE = "crawlframe", "manage.py"
CHECKOUT = (Path(__file__).parents[2] / MANAGE).is_file()  # in place of an installed package


def command(words: str) -> str:
    """The command line that runs ``words``, for messages: ``python manage.py node list``, or
    ``crawlframe node list`` where this process was started by the entry point. A process that was
    started otherwise, such as the web, says ``crawlframe`` unless it runs in a checkout."""
    typed = Path(sys.argv[0]).name if sys.argv else ""
    ours = typed == ENTRY_POINT or (typed != MANAGE and not CHECKOUT)
    return f"{ENTRY_POINT if ours else f'python {MANAGE}'} {words}"
