"""Kept: a page of the store, given to the code of today. Nothing is fetched and nothing stored.
Who calls it keeps databases from being written."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError, FetchError
from crawlframe.node.worker.verdict.failures import authors_part
from crawlframe.recorded.difference import readable, snapshot_of, snapshot_of_error
from crawlframe.recorded.replay import offline
from crawlframe.recorded.secrets import Secrets
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider
from crawlframe.testing.runs import LAST, Given
from crawlframe.testing.trial import Trial

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# Events of sys.audit: the places of their arguments that are paths, and of the directories that
# these are relative to.
_PATHS = {
    "os.remove": ((0, 1),),
    "os.rmdir": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rename": ((0, 2), (1, 3)),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, -1),),
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.utime": ((0, 3),),
}
_PROGRAMS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork",
             "os.forkpty")  # fmt: skip
_active: list[str] = []  # the directory of temporary files, which may be written
_installed = False


def try_page(
    kind: type[Spider],
    arguments: dict[str, Any],
    request: Request,
    response: Response,
    settings: Settings,
) -> dict[str, Any]:
    """Returns the snapshot of what the page leads to; of a callback that raises, ``trace`` is the
    traceback of its code. Raises CrawlframeError if the page cannot be given to this code."""
    secrets, asked = Secrets(), list[str]()
    secrets.learn_arguments(arguments)

    def find(wanted: Request) -> Response:
        asked.append(wanted.url)
        if len(asked) > 1:
            raise FetchError(f"{wanted.url}: nothing is fetched when a kept page is tried")
        return response

    raised: BaseException | None = None
    with offline() as tried, without_effects():
        # What is kept was sent to whoever had a token.
        given = Given(find, knows_targets=False)
        trial = Trial(kind, given, arguments, settings=settings, tokens=False)
        try:
            result = trial.run(request, LAST)
        except CrawlframeError as error:
            if not trial.raised:
                raise
            raised = error
        except (Exception, SystemExit) as error:  # the author's code may raise anything
            raised = error
    if tried:
        raise CrawlframeError(f"its code went to {tried[0]}, which is not done for a trial")
    if raised is None:
        return snapshot_of(result, secrets)
    lines = traceback.format_exception(
        raised.with_traceback(authors_part(raised.__traceback__)), chain=False
    )
    trace = readable(secrets.text("".join(lines).rstrip()))
    return {**snapshot_of_error(raised, secrets), "trace": trace}


class Refused(CrawlframeError, PermissionError):
    """Something would have had an effect while a kept page was tried."""


@contextmanager
def without_effects() -> Iterator[None]:
    """Makes Python refuse to write files, apart from temporary ones, and to start processes, in all
    threads of the process. Code of other languages is not seen."""
    global _installed
    if not _installed:  # it cannot be removed, and costs little while nothing is tried
        sys.addaudithook(_judge)
        _installed = True
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    _active.append(os.path.realpath(tempfile.gettempdir()))
    try:
        yield
    finally:
        _active.pop()
        sys.dont_write_bytecode = before


def _judge(event: str, arguments: tuple[Any, ...]) -> None:
    if not _active:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING and not isinstance(path, int):
            _judge_path(path)
    elif event in _PATHS:
        for path, directory in _PATHS[event]:
            _judge_path(arguments[path], arguments[directory] if directory > 0 else -1)
    elif event in _PROGRAMS:
        raise Refused(f"{_named(event, arguments)}: no process is started when a page is tried")


def _judge_path(path: Any, directory: Any = -1) -> None:
    if isinstance(path, int):  # a file that is open
        return
    place = os.fsdecode(path)
    if isinstance(directory, int) and directory >= 0:
        place = f"{os.path.realpath(f'/proc/self/fd/{directory}')}{os.sep}{place}"
    place = os.path.realpath(place)
    if place != os.devnull and not place.startswith(f"{_active[-1]}{os.sep}"):
        raise Refused(f"{place}: no file is written when a page is tried")


def _named(event: str, arguments: tuple[Any, ...]) -> str:
    return str(arguments[0]) if arguments and isinstance(arguments[0], str) else event
