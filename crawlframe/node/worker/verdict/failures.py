"""Failures: how failed requests are described in the ledger."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from types import TracebackType

from crawlframe.errors import (
    BadRequest,
    CloseTask,
    EngineFailed,
    Excluded,
    FetchError,
    UnparsablePage,
)
from crawlframe.fetch import middlewares
from crawlframe.items import pipelines
from crawlframe.items.encode import clean_text
from crawlframe.node.worker.verdict.signals import JudgementFailed
from crawlframe.response.response import Response
from crawlframe.run import collector, link_filters
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.reasons import EXCLUDED, NO_ERRORS

log = logging.getLogger(__name__)

MAX_REASON = 200  # characters of a spider's reason for closing its task
MAX_DETAIL = 8192  # characters of a message or traceback in the ledger
_WORKER = Path(__file__).parents[1]
_CALLERS = ("crawl/callbacks", "fetch/rendering", "run_request")
# The modules that call the authors' code.
CALLERS = {
    *(str(_WORKER / f"{name}.py") for name in _CALLERS),
    middlewares.__file__,
    collector.__file__,
    link_filters.__file__,
    pipelines.__file__,
    # Most spiders have none, so it is not imported.
    str(Path(pipelines.__file__).parents[1] / "spider/page_objects.py"),
}


class StatusError(FetchError):
    """The server answered with a status that the spider does not handle."""

    def __init__(self, response: Response, retryable: bool) -> None:
        super().__init__(f"{response.url} answered {response.status}")
        self.retryable = retryable
        self.reason = f"http_{response.status}"
        self.response = response


def trim(text: str, limit: int = MAX_DETAIL) -> str:
    """Text for the ledger: clean, and shortened in the middle if it is too long."""
    text = clean_text(text)
    if len(text) <= limit:
        return text
    return f"{text[: limit // 2]}\n...\n{text[-limit // 2 :]}"


def closing_reason(close: CloseTask) -> str:
    """Why a spider closed its task, in one line."""
    return " ".join(clean_text(close.reason).split())[:MAX_REASON] or "closed by the spider"


def authors_part(trace: TracebackType | None) -> TracebackType | None:
    """Returns the traceback from the author's code on, without our own frames above it; None if
    none of its frames is the author's."""
    part, above, found = trace, False, False
    while trace is not None:
        ours = trace.tb_frame.f_code.co_filename in CALLERS
        if above and not ours:
            part, found = trace, True
        elif ours and not found:
            part = None
        above, trace = ours, trace.tb_next
    return part


def authors_trace(error: BaseException) -> str:
    """The error with its traceback from the author's code on, as Python prints it."""
    shown = error.with_traceback(authors_part(error.__traceback__))
    return "".join(traceback.format_exception(shown, chain=False)).rstrip()


def callback_traceback(error: BaseException) -> str:
    """The traceback from the author's code on."""
    lines = traceback.format_tb(authors_part(error.__traceback__))
    return trim("".join([*lines, *traceback.format_exception_only(error)]))


def reason_of(error: FetchError) -> str:
    """The error's reason for the ledger, in one line. Authors choose the reasons of their own
    errors; one named "cancelled" or "robots" is replaced, since it would not count as an error."""
    reason = " ".join(clean_text(str(error.reason)).split())
    if reason in EXCLUDED and isinstance(error, Excluded):
        return reason
    return FetchError.reason if reason in NO_ERRORS | {""} else reason


def describe(failed: middlewares.MiddlewareFailed | JudgementFailed) -> tuple[str, str]:
    """Reason and detail for the ledger."""
    error = failed.error
    if isinstance(failed, JudgementFailed):
        return "callback", callback_traceback(error)
    reason = error.reason if isinstance(error, UnparsablePage) else "middleware"
    return reason, f"middleware {failed.name}:\n{callback_traceback(error)}"


def end_as_failed(outcome: Outcome, *, whole: bool) -> None:
    """Ends an outcome with its ``failure`` as an error. Its results are dropped if it is a
    ``whole``."""
    assert outcome.results.failure is not None
    error, reason = outcome.results.failure
    if whole:
        outcome.end(Verdict.ERROR)
    outcome.reason = error.reason if isinstance(error, UnparsablePage) else reason
    outcome.verdict, outcome.detail = Verdict.ERROR, callback_traceback(error)


def as_fetch_error(raised: Exception) -> FetchError:
    """The error with which a fetch ends. Any other error means that the request cannot be sent
    (BadRequest), or is a defect in the engine, which the log shows, too."""
    if isinstance(raised, FetchError):
        return raised
    if isinstance(raised, BadRequest):
        error = EngineFailed(str(raised))
        error.reason = "bad_request"
        return error
    log.error("a fetch failed inside the engine", exc_info=raised)
    return EngineFailed(callback_traceback(raised))
