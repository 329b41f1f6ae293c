"""Check: the recorded pages of spiders replayed with a version of the code before it goes live. It
runs in a process of its own, forked from the template of that version."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.node.master import offspring
from crawlframe.node.messages import (
    Checked,
    CheckingPage,
    CheckRecorded,
    FromChildLine,
    ServePages,
)
from crawlframe.node.worker.verdict.failures import authors_trace
from crawlframe.recorded.difference import differences
from crawlframe.recorded.folder import HEAD, START, Recording, recordings_of
from crawlframe.recorded.isolation import offline
from crawlframe.recorded.replay import NotReplayed, RecordingReplay

PAGES = 3  # pages of a spider that are named
LINES = 3  # differences of a page that are named

Begins = Callable[[str, str], None]  # called with spider and page before it is run


def run_checker(
    settings: Settings,
    registry: Registry,
    channel: FromChildLine,
    run_trial: Callable[[str], None],
    preview: Callable[[str, list[str] | None, Begins], dict[str, str]] = lambda *given: {},
    serve: Callable[[], None] = lambda: None,
    guard: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    """Replays spiders at the master's request, sends the result, and returns. ``run_trial`` carries
    out the order of a trial; ``preview`` returns the problems of spiders on kept pages, compared
    with the live version, and ``serve`` does the part of the live version in that. ``guard``:
    around the replay."""
    for message in _received(channel):
        if isinstance(message, CheckRecorded) and message.trial:
            run_trial(message.trial)
            _end_started()
        elif isinstance(message, ServePages):
            serve()
        elif isinstance(message, CheckRecorded):
            recorded = [one for one in message.spiders if registry.info(one).settings.check]
            with guard():
                problems = check(
                    *(settings, registry, recorded),
                    lambda spider, page: channel.send_all(CheckingPage(spider, page)),
                )
            problems |= preview(
                message.live,
                message.tried and [one for one in message.tried if one not in problems],
                lambda spider, url: channel.send_all(CheckingPage(spider, url, kept=True)),
            )
            _end_started()
            channel.send_all(Checked(problems))


def check(
    settings: Settings,
    registry: Registry,
    spiders: Iterable[str],
    begins: Begins = lambda spider, page: None,
) -> dict[str, str]:
    """Returns the problems of these spiders, by name: pages whose results differ from the recorded
    ones, with the difference. ``begins`` is called with each page before it is replayed."""
    found = {}
    with offline():  # also between two pages, for threads that callbacks have started
        for spider in spiders:
            try:
                found[spider] = _problem(settings, registry, spider, begins)
            except CrawlframeError as error:
                found[spider] = f"spider {spider}: {error}"
    return {spider: problem for spider, problem in found.items() if problem}


def _problem(settings: Settings, registry: Registry, spider: str, begins: Begins) -> str:
    directory = recordings_of(settings) / spider
    if not (directory / HEAD).exists():
        return (
            f'spider {spider} has check = "recorded", and {directory} has no recorded pages; '
            f"record some (record {spider}), or set CRAWLFRAME_RECORDED and restart"
        )
    recording = Recording.read(directory)
    if recording.head.spider != spider:
        return (
            f"spider {spider}: {directory / HEAD} is of the spider {recording.head.spider}; "
            f"record {spider} again"
        )
    if not recording.pages.keys() - {START}:
        return (
            f'spider {spider} has check = "recorded", and {directory} has no page besides '
            f"{START}; record it again"
        )
    replay = RecordingReplay(recording, registry.get(spider), settings)
    failed = []
    for name in recording.pages:
        begins(spider, name)
        if lines := _differences(recording, replay, name):
            where = f"spider {spider}: recorded page {name} ({recording.pages[name].url})"
            shown = lines[:LINES] + [f"and {len(lines) - LINES} more"] * (len(lines) > LINES)
            failed.append(f"{where}: {'; '.join(shown)}")
    if len(failed) > PAGES:
        failed[PAGES:] = [f"spider {spider}: and {len(failed) - PAGES} more pages"]
    return "\n".join(failed)


def _differences(recording: Recording, replay: RecordingReplay, name: str) -> list[str]:
    try:
        replayed = replay.run(name)
    except NotReplayed as error:
        return [str(error)]
    found = differences(recording.results[name], replayed.snapshot, recording.head.ignore)
    if found and replayed.error is not None:
        return [authors_trace(replayed.error)]
    return found


def _end_started() -> None:
    """Ends the processes that callbacks have started: no other process knows them."""
    offspring.kill(offspring.of(os.getpid()))


def _received(channel: FromChildLine) -> Iterable[object]:
    """The first messages of the master."""
    select.select([channel], [], [])
    return channel.receive()
