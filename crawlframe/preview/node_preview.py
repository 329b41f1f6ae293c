"""NodePreview: kept pages, run by a new version of the code and by the live one before the new one
goes live. Each is in a process of its own, with a line between the two."""

from __future__ import annotations

import logging
import select
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from crawlframe.errors import CrawlframeError
from crawlframe.node.channel import Channel, ChannelClosed
from crawlframe.preview.comparison import SpiderComparison, Tried
from crawlframe.preview.rules import NAME, PreviewRules, Regression, RulesError, name_of
from crawlframe.preview.side import (
    FROM_WORKER,
    TO_WORKER,
    Marks,
    Order,
    PageTried,
    PageWorker,
    TellMarks,
    ToWorker,
)

log = logging.getLogger(__name__)

PAGES = 2_000  # pages of all spiders that are run
FEWEST_PAGES, MOST_PAGES = 5, 200  # pages of a spider
AHEAD = 8  # pages that the live version may be behind
MAX_BYTES = 8 << 20  # bytes of their bodies
ENOUGH_PAGES = 20  # pages of a spider that are compared though it is certain to have errors
ANSWER_SECONDS = 10.0  # seconds that the live version may take for a page
LATE = "the live version took longer than {:g} s"
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
        self, live: str, spiders: Sequence[str] | None, begins: Callable[[str, str], None]
    ) -> dict[str, str]:
        """The differences from the ``live`` version that are errors, by spider; None stands for all
        spiders whose code differs. ``begins`` is called with spider and URL before each page. If
        the live version does not answer, or the pages cannot be read, nothing more is compared."""
        try:
            rules = PreviewRules.read(self._package)
        except RulesError as error:
            return {next(iter(spiders or ()), NAME): str(error)}
        other = _Other(self._line)
        compared, errors = [], []
        with self._worker.around.guard():
            try:
                names = self._changed(other) if spiders is None else spiders
                limit = min(MOST_PAGES, max(FEWEST_PAGES, PAGES // max(1, len(names))))
                for spider in names:
                    comparison = SpiderComparison(spider, rules.ignores(spider))
                    self._compare(comparison, self._pages(spider, limit), other, rules, begins)
                    compared.append(comparison)
                    errors += rules.regressions(comparison)
            except (ChannelClosed, PagesAway, TimeoutError) as error:
                log.warning("kept pages are not compared further: %s", error)
        if errors:
            self._keep(live, compared, errors)
        return {one.spider: text for one in compared if (text := _in_words(one, errors))}

    def _changed(self, other: _Other) -> list[str]:
        """The spiders that both versions have and whose code differs; all of them if the readers of
        what differs are unknown. Raises ChannelClosed and TimeoutError."""
        other.ask_marks()
        ours = self._worker.marks()
        theirs = other.marks()
        both = sorted(ours.marks.keys() & theirs.marks.keys())
        if ours.data != theirs.data:
            return both
        return [name for name in both if ours.marks[name] != theirs.marks[name]]

    def _compare(
        self,
        comparison: SpiderComparison,
        pages: Iterable[Order],
        other: _Other,
        rules: PreviewRules,
        begins: Callable[[str, str], None],
    ) -> None:
        """Compares the pages of a spider, until they are certain to have errors. Raises
        ChannelClosed, PagesAway and TimeoutError."""
        for page in pages:
            asked = other.ask(page)
            begins(comparison.spider, page.place.url)
            asked.after = self._worker.tried(asked.order).result
            other.settle(comparison, AHEAD)
            if comparison.pages >= ENOUGH_PAGES and rules.fails_for_certain(comparison):
                comparison.is_cut = True
                other.forget()
                return
        other.settle(comparison, 0)


@dataclass
class _Asked:
    """A page that the other version was given. ``again``: for the second time; ``before`` is the
    first result then."""

    order: Order
    after: Tried | None = None
    before: Tried | None = None

    @property
    def again(self) -> bool:
        return self.before is not None


class _Other:
    """The process of the live version, which is some pages ahead or behind."""

    def __init__(self, line: socket.socket) -> None:
        self._channel: ToWorker = Channel(line, FROM_WORKER)
        self._asked: dict[int, _Asked] = {}  # by number, in order
        self._number = 0

    def ask_marks(self) -> None:
        """Raises ChannelClosed."""
        self._channel.send(TellMarks())

    def marks(self) -> Marks:
        """The answer. Raises ChannelClosed and TimeoutError."""
        while True:
            if not select.select([self._channel], [], [], ANSWER_SECONDS)[0]:
                raise TimeoutError(LATE.format(ANSWER_SECONDS))
            for message in self._channel.receive():
                if isinstance(message, Marks):
                    return message

    def ask(self, page: Order) -> _Asked:
        """Raises ChannelClosed."""
        asked = _Asked(page)
        self._give(asked)
        return asked

    def _give(self, asked: _Asked) -> None:
        self._number += 1
        asked.order = replace(asked.order, number=self._number)
        self._asked[self._number] = asked
        self._channel.send(asked.order)

    def settle(self, comparison: SpiderComparison, most: int) -> None:
        """Adds pages that both versions have run, until at most ``most`` are left. Raises
        ChannelClosed and TimeoutError."""
        while True:
            waits = len(self._asked) > most or self._size > MAX_BYTES
            limit = ANSWER_SECONDS if waits else 0.0
            writes = [self._channel] if self._channel.pending else []
            readable, writable, _ = select.select([self._channel], writes, [], limit)
            if writable:
                self._channel.flush()
            for message in self._channel.receive() if readable else ():
                if isinstance(message, PageTried):
                    self._take(comparison, message)
            if not waits:
                return
            if not readable and not writable:
                raise TimeoutError(LATE.format(ANSWER_SECONDS))

    @property
    def _size(self) -> int:
        return sum(one.order.size for one in self._asked.values())

    def _take(self, comparison: SpiderComparison, message: PageTried) -> None:
        asked = self._asked.pop(message.number, None)
        if asked is None or asked.after is None:  # forgotten
            return
        before = asked.before or message.result
        again = message.result if asked.again else None
        if not comparison.take(asked.order.place, before, asked.after, again):
            asked.before = before
            self._give(asked)

    def forget(self) -> None:
        """Leaves out the answers that are still to come."""
        self._asked.clear()


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
