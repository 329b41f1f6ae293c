"""Tracebacks: what the ledger keeps of an error in an author's code."""

from __future__ import annotations

import traceback
from pathlib import Path

from crawlframe.fetch import middlewares
from crawlframe.outcome import clean_text

MAX_DETAIL = 8192  # characters of a message or traceback in the ledger
# The modules that call authors' code.
_CALLERS = {
    *(str(Path(__file__).with_name(name)) for name in ("callbacks.py", "run_request.py")),
    middlewares.__file__,
}


def trim(text: str, limit: int = MAX_DETAIL) -> str:
    """Text for the ledger: clean, and cut in the middle when it is too long."""
    text = clean_text(text)
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n...\n{text[-limit // 2 :]}"


def callback_traceback(error: BaseException) -> str:
    """The traceback from the author's code on, without our own frames above it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame.filename in _CALLERS for frame in frames]
    calls = [i for i in range(1, len(frames)) if ours[i - 1] and not ours[i]]
    lines = traceback.format_list(frames[calls[-1] :] if calls else frames)
    return trim("".join([*lines, *traceback.format_exception_only(error)]))
