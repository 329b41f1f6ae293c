"""Failures: what the ledger says of a request that failed."""

from __future__ import annotations

import traceback
from pathlib import Path

from crawlframe.errors import FetchError
from crawlframe.node.worker import callbacks
from crawlframe.outcome import clean_text
from crawlframe.response import Response

MAX_DETAIL = 8192  # characters of a message or traceback in the ledger
# Their frames lie above those of the author's code.
CALLERS = (callbacks.__file__, str(Path(__file__).with_name("run_request.py")))


class StatusError(FetchError):
    """The server answered with a status that the spider does not handle."""

    def __init__(self, response: Response, retryable: bool) -> None:
        super().__init__(f"{response.url} answered {response.status}")
        self.retryable = retryable
        self.reason = f"http_{response.status}"
        self.response = response


def trim(text: str, limit: int = MAX_DETAIL) -> str:
    """Text for the ledger: clean, and cut in the middle when it is too long."""
    text = clean_text(text)
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n...\n{text[-limit // 2 :]}"


def callback_traceback(error: BaseException) -> str:
    """The traceback from the author's code on, without our own frames above it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [i for i, frame in enumerate(frames) if frame.filename in CALLERS]
    lines = traceback.format_list(frames[own[-1] + 1 :] if own else frames)
    return trim("".join([*lines, *traceback.format_exception_only(error)]))
