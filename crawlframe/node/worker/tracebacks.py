"""Tracebacks: what the ledger keeps of what an author's code raised."""

from __future__ import annotations

import traceback
from pathlib import Path

from crawlframe import outcome, pipelines
from crawlframe.errors import CloseTask
from crawlframe.items import clean_text

MAX_REASON = 200  # characters of the reason why a spider closed its task
MAX_DETAIL = 8192  # characters of a message or traceback in the ledger
# The modules that call authors' code.
_CALLERS = {
    *(str(Path(__file__).with_name(name)) for name in ("callbacks.py", "run_request.py")),
    outcome.__file__,
    pipelines.__file__,
}


def trim(text: str, limit: int = MAX_DETAIL) -> str:
    """Text for the ledger: clean, and cut in the middle when it is too long."""
    text = clean_text(text)
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n...\n{text[-limit // 2 :]}"


def reason_of(close: CloseTask) -> str:
    """Why a spider closed its task, in one line."""
    return " ".join(clean_text(close.reason).split())[:MAX_REASON] or "closed by the spider"


def callback_traceback(error: BaseException) -> str:
    """The traceback from the author's code on, without our own frames above it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [i for i, frame in enumerate(frames) if frame.filename in _CALLERS]
    lines = traceback.format_list(frames[own[-1] + 1 :] if own else frames)
    return trim("".join([*lines, *traceback.format_exception_only(error)]))
