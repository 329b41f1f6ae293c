"""NodePreview: kept pages, run by a new version of the code and by the live one before the new one
goes live. Each is in a process of its own, with a line between the two."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from crawlframe.errors import CrawlframeError
from crawlframe.node.channel import Channel, ChannelClosed
from crawlframe.preview.comparison import SpiderComparison, Tried
from crawlframe.preview.rules import PreviewRules, Regression, RulesError, name_of
from crawlframe.preview.side import FROM_WORKER, TO_WORKER, Order, PageWorker, ToWorker

log = logging.getLogger(__name__)

PAGES = 2_000  # pages of all spiders that are run
FEWEST_PAGES, MOST_PAGES = 5, 200  # pages of a spider
ANSWER_SECONDS = 10.0  # seconds that the live version may take for a page
LINES = 3  # differences of a spider that are named

Keep = Callable[[str, Sequence[SpiderComparison], Sequence[Regression]], None]


class PagesAway(CrawlframeError):
    """The kept pages cannot be read now."""


class NodePreview:
    """``worker``: of this version. ``pages`` returns at most so many kept pages of a spider, and
    raises PagesAway. ``package``: of the spiders. ``line``: to the process of the other version.
    ``keep`` gets the live version, the comparisons and the errors, if there are any."""

    def __init__(
        self,
        worker: PageWorker,
        pages: Callable[[str, int], Iterator[Order]],
        package: Path,
        line: socket.socket,
        keep: Keep = lambda live, comparisons, errors: None,
    ) -> None:
        self._worker = worker
        self._pages = pages
        self._package = package
        self._line = line
        self._keep = keep

    def serve(self) -> None:
        """Runs the pages that the other process sends."""
        self._worker.serve(Channel(self._line, TO_WORKER))

    def problems(
        self, live: str, spiders: Sequence[str], begins: Callable[[str, str], None]
    ) -> dict[str, str]:
        """The differences from the ``live`` version that are errors, by spider. ``begins`` is
        called with spider and URL before each page. If the live version does not answer, or the
        pages cannot be read, nothing more is compared."""
        try:
            rules = PreviewRules.read(self._package)
        except RulesError as error:
            return dict.fromkeys(spiders[:1], str(error))
        limit = min(MOST_PAGES, max(FEWEST_PAGES, PAGES // max(1, len(spiders))))
        other = _Other(self._line)
        compared, errors = [], []
        with self._worker.around.guard():
            for spider in spiders:
                comparison = SpiderComparison(spider, rules.ignores(spider))
                try:
                    for order in self._pages(spider, limit):
                        begins(spider, order.place.url)
                        self._compare(comparison, order, other)
                except (ChannelClosed, PagesAway, TimeoutError) as error:
                    log.warning("kept pages are not compared further: %s", error)
                    break
                compared.append(comparison)
                errors += rules.regressions(comparison)
        if errors:
            self._keep(live, compared, errors)
        return {one.spider: text for one in compared if (text := _in_words(one, errors))}

    def _compare(self, comparison: SpiderComparison, order: Order, other: _Other) -> None:
        """Raises ChannelClosed and TimeoutError."""
        other.ask(order)
        after = self._worker.tried(order).result
        before = other.answer()
        if not comparison.take(order.place, before, after):
            other.ask(order)
            comparison.take(order.place, before, after, other.answer())


class _Other:
    """The process of the live version."""

    def __init__(self, line: socket.socket) -> None:
        self._channel: ToWorker = Channel(line, FROM_WORKER)

    def ask(self, order: Order) -> None:
        """Raises ChannelClosed."""
        self._channel.send_all(order)

    def answer(self) -> Tried:
        """Raises ChannelClosed and TimeoutError."""
        while True:
            if not select.select([self._channel], [], [], ANSWER_SECONDS)[0]:
                raise TimeoutError(f"the live version took longer than {ANSWER_SECONDS:g} s")
            for message in self._channel.receive():
                return message.result


def _in_words(comparison: SpiderComparison, errors: Sequence[Regression]) -> str:
    """The errors of a spider, with examples; "" if there are none."""
    own = [one for one in errors if one.spider == comparison.spider]
    parts = {one.part for one in own}
    examples = [
        f"{name_of(part)}: {one.before or 'nothing'} -> {one.after or 'nothing'} on {one.url}"
        for part, tally in comparison.parts.items()
        if part in parts
        for one in tally.examples
    ]
    return "\n".join(map(str, [*own[:LINES], *examples[:LINES]]))
