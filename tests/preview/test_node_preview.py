"""A node compares a version with the live one, which is some pages ahead or behind. No process is
forked: the live version is a thread."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crawlframe.base.exact_json import dumps
from crawlframe.node.channel import Channel, ChannelClosed
from crawlframe.pages.reparse import SourcePage
from crawlframe.preview import node_preview
from crawlframe.preview.comparison import SpiderComparison
from crawlframe.preview.node_preview import AHEAD, ENOUGH_PAGES, NodePreview, PagesAway
from crawlframe.preview.side import (
    TO_WORKER,
    Marks,
    Order,
    PageTried,
    TellMarks,
    TryPage,
    received,
)

Result = Callable[[int], Any]  # the item of the page with this number
PAGES = 60


def same(number: int) -> Any:
    return {"price": number}


def nothing(number: int) -> Any:
    return {"price": None}


def answer(order: Order, result: Result) -> PageTried:
    assert isinstance(order, TryPage)
    found = {"end": "done", "items": [result(order.page.number)]}
    return PageTried(order.number, dumps(found), 0.001)


class Sides:
    """Both versions; ``asked``: the numbers of the pages that each has run."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.live: Result = same
        self.new: Result = same
        self.asked: dict[str, list[int]] = {"live": [], "new": []}
        self.size = 10  # bytes of a page
        self.kept: list[SpiderComparison] = []
        self.behind = 0  # pages that the live version was behind at most

        self.marks = Marks({}, ""), Marks({}, "")  # live, new

    def problems(self, *spiders: str | None, pages: Any = None) -> dict[str, str]:
        ours, theirs = socket.socketpair()
        thread = threading.Thread(target=self._serve, args=(theirs,))
        thread.start()
        worker: Any = SimpleNamespace(
            tried=self._tried,
            around=SimpleNamespace(guard=nullcontext),
            marks=lambda: self.marks[1],
        )

        def keep(live: str, compared: Any, errors: Any) -> None:
            self.kept += compared

        preview = NodePreview(worker, pages or self._pages, self.package, ours, keep)
        try:
            names = None if spiders == (None,) else [one for one in spiders if one]
            return preview.problems("1", names, lambda spider, url: None)
        finally:
            ours.close()
            thread.join()

    def _pages(self, spider: str, limit: int) -> Iterator[Order]:
        for n in range(min(limit, PAGES)):
            url = f"https://{spider}.example/{n}"
            page = SourcePage(n, b"", 1, url, 200, "", {}, "", b"", b"x" * self.size)
            yield TryPage(0, spider, {}, page)

    def _tried(self, order: TryPage) -> PageTried:
        self.asked["new"].append(order.page.number)
        return answer(order, self.new)

    def _serve(self, line: socket.socket) -> None:
        channel: Any = Channel(line, TO_WORKER)
        try:
            for order in received(channel):
                if isinstance(order, TellMarks):
                    channel.send_all(self.marks[0])
                    continue
                self.asked["live"].append(order.page.number)
                self.behind = max(self.behind, len(self.asked["new"]) - len(self.asked["live"]))
                channel.send_all(answer(order, self.live))
        except (ChannelClosed, RuntimeError):
            pass
        finally:
            channel.close()


@pytest.fixture
def sides(tmp_path: Path) -> Sides:
    return Sides(tmp_path)


def test_each_page_runs_once_where_nothing_differs(sides: Sides) -> None:
    assert sides.problems("shop") == {}
    assert sides.asked == {"live": [*range(PAGES)], "new": [*range(PAGES)]}
    assert sides.behind <= AHEAD + 1
    assert sides.kept == []


def test_a_loss_stops_the_spider_and_not_the_others(sides: Sides) -> None:
    sides.new = nothing
    problems = sides.problems("shop", "news")
    assert problems.keys() == {"shop", "news"}
    assert len(sides.asked["new"]) <= 2 * (ENOUGH_PAGES + AHEAD + 1)
    for one in sides.kept:
        assert one.is_cut
        assert ENOUGH_PAGES <= one.pages <= ENOUGH_PAGES + AHEAD + 1
        assert one.parts["items.price"].lost == one.pages


def test_a_share_that_may_be_lost_is_known_at_the_end(sides: Sides) -> None:
    (sides.package / "preview.toml").write_text("share = 0.99")
    sides.new = lambda number: {"price": number if number == 59 else None}
    assert sides.problems("shop") == {}
    assert len(sides.asked["new"]) == PAGES


def test_the_last_page_counts(sides: Sides) -> None:
    sides.new = lambda number: {"price": None if number == PAGES - 1 else number}
    assert "lost 1 of 60" in sides.problems("shop")["shop"]
    assert sides.asked["live"].count(PAGES - 1) == 2  # it was run again


def test_what_changes_from_run_to_run_is_no_loss(sides: Sides) -> None:
    runs: list[int] = []

    def moving(number: int) -> Any:
        runs.append(number)
        return {"price": number, "at": len(runs) if runs.count(number) > 1 else 1}

    sides.live = moving
    sides.new = lambda number: {"price": number}
    assert sides.problems("shop") == {}


@pytest.mark.parametrize("error", ["live", "pages"])
def test_what_cannot_be_compared_is_no_loss(sides: Sides, error: str) -> None:
    def ends(number: int) -> Any:
        if number == 30:
            raise RuntimeError("it ends")
        return same(number)

    def away(spider: str, limit: int) -> Iterator[Order]:
        yield from [*sides._pages(spider, limit)][:3]
        raise PagesAway("the database is gone")

    sides.new = nothing if error == "pages" else same
    sides.live = ends if error == "live" else same
    assert sides.problems("shop", pages=away if error == "pages" else None) == {}


def test_a_live_version_that_hangs_is_not_waited_for(
    sides: Sides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_preview, "ANSWER_SECONDS", 0.05)
    going = threading.Event()

    def hangs(number: int) -> Any:
        if number == 5:
            going.wait(5.0)
        return same(number)

    def pages(spider: str, limit: int) -> Iterator[Order]:
        yield from sides._pages(spider, limit)

    sides.live = hangs
    threading.Timer(0.5, going.set).start()
    assert sides.problems("shop", "news", pages=pages) == {}
    assert len(sides.asked["new"]) <= 5 + AHEAD + 2


def test_large_pages_do_not_pile_up(sides: Sides, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_preview, "MAX_BYTES", 1 << 16)
    sides.size = 1 << 17
    assert sides.problems("shop") == {}
    assert sides.behind <= 1
    assert sides.asked["live"] == [*range(PAGES)]


@pytest.mark.parametrize(
    ("live", "new", "tried"),
    [
        (Marks({"shop": "a", "news": "a", "old": "a"}, "d"), Marks({"shop": "b", "news": "a"}, "d"),
         {"shop"}),
        (Marks({"shop": "a", "news": "a"}, "d"), Marks({"shop": "a", "news": "a"}, "e"),
         {"shop", "news"}),
        (Marks({"shop": "a", "news": "a"}, ""), Marks({"shop": "b", "news": "a"}, ""), {"shop"}),
    ],
)  # fmt: skip
def test_of_all_spiders_those_whose_code_differs_are_tried(
    sides: Sides, live: Marks, new: Marks, tried: set[str]
) -> None:
    sides.marks = live, new
    sides.new = nothing
    assert sides.problems(None).keys() == tried
