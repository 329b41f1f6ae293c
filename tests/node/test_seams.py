"""Code of authors around callbacks: pipelines, opened, closed, log, stats, CloseTask."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from crawlframe.frontier.client.records import Claimed, TaskView
from crawlframe.request.request import Request
from crawlframe.run.outcome import Verdict
from crawlframe.spider.task_info import Summary
from tests.node.runner import URL, Runs, items, registry_of

HEAD = """
import asyncio, threading, time
from crawlframe import CloseTask, DropItem, Request, Spider

def doubled(item, response):
    return {**item, "n": 2 * item["n"]}

class NotOld:
    def process_item(self, item, response):
        if item["n"] > 10:
            raise DropItem("too old")
        return item

async def later(item, response):
    await asyncio.sleep(0.001 * (5 - item["n"]))
    item["later"] = response.url if response else None
    return item

class Shop(Spider):
    name = "shop"
"""


def runs(folder: Path, body: str, **arguments: Any) -> Runs:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return Runs(registry_of(folder, f"{HEAD}{lines}\n"), **arguments)


def test_items_go_through_pipelines_in_order(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
pipelines = [doubled, NotOld(), doubled]
def start(self):
    yield {"n": 1}
def parse(self, response):
    for n in range(8):
        yield {"n": n}
    yield Request("http://shop.example/b")
""",
    )
    outcome = asyncio.run(worker.page())
    assert [item["n"] for item in items(outcome)] == [0, 4, 8, 12, 16, 20]
    assert len(outcome.results.follow_ups) == 1
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"dropped/too old": 2}
    assert items(asyncio.run(worker.start())) == [{"n": 4}]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_async_pipelines_keep_the_order_and_what_was_yielded(tmp_path: Path, kind: str) -> None:
    worker = runs(
        tmp_path,
        f"""
pipelines = [doubled, later, NotOld]
{kind} parse(self, response):
    item = {{"n": 0}}
    for n in range(7):
        item["n"] = n  # the same one, again and again
        yield item
""",
    )
    outcome = asyncio.run(worker.page())
    expected = [{"n": 2 * n, "later": URL} for n in range(6)]
    assert items(outcome) == expected
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"dropped/too old": 1}


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ("lambda item, response: None", "Shop.<lambda> returned NoneType 'None'; return the item"),
        ("lambda item, response: 'text'", "returned str 'text'; return the item, or raise"),
        ("lambda item, response: later(item, response)", "write it with async def"),
        ("lambda item, response: Request('http://a.example/')", "yield Requests in callbacks"),
        ("lambda item, response: 1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_pipeline_that_fails_leaves_out_its_item_and_is_named(
    tmp_path: Path, pipeline: str, words: str
) -> None:
    worker = runs(
        tmp_path,
        f"""
some = lambda item, response, fails={pipeline}: (
    fails(item, response) if item["n"] == 4 else item
)
pipelines = [doubled, some]
def parse(self, response):
    self.stats.inc("seen")
    yield from ({{"n": n}} for n in (1, 2, 3))
    yield Request("http://shop.example/b")
""",
    )
    outcome = asyncio.run(worker.page())
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "pipeline")
    assert words in outcome.detail
    assert ([item["n"] for item in items(outcome)], len(outcome.results.follow_ups)) == ([2, 6], 1)
    assert outcome.results.stats is not None
    error = "ZeroDivisionError" if "Zero" in words else "SpiderError"
    dropped = f"dropped/Shop.<lambda> raised {error}"
    assert outcome.results.stats.counters == {"seen": 1, dropped: 1}
    assert "callbacks.py" not in outcome.detail


PARTIAL = """
settings = {{"keep_partial": {kept}}}
pipelines = {pipelines}
{kind} parse(self, response=None):
    yield {{"n": 1}}
    yield Request("http://shop.example/b")
    self.stats.inc("seen")
    {bad}
    yield {{"n": 2}}
{kind} start(self):
    {loop} thing in self.parse():
        yield thing
"""


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("pipelines", ["[doubled]", "[doubled, later]"])
@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize("bad", ["1 / 0", "yield 'a text'", "yield {'n': {object()}}"])
def test_what_is_yielded_before_an_error_is_kept_if_asked_for(
    tmp_path: Path, kind: str, pipelines: str, kept: bool, bad: str
) -> None:
    loop = "for" if kind == "def" else "async for"
    body = PARTIAL.format(kind=kind, pipelines=pipelines, kept=kept, bad=bad, loop=loop)
    worker = runs(tmp_path, body)
    for outcome in (asyncio.run(worker.page()), asyncio.run(worker.start())):
        assert outcome.verdict is Verdict.ERROR
        # A pipeline cannot double a set.
        assert outcome.reason == ("pipeline" if "object" in bad else "callback")
        whole = kept or "object" in bad
        rest = [] if bad == "1 / 0" else [4]
        assert [item["n"] for item in items(outcome)] == ([2, *rest] if whole else [])
        assert len(outcome.results.follow_ups) == whole
        assert (outcome.results.stats is not None) == whole


@pytest.mark.parametrize("value", ["[{'n': 2}]", "{'n': 2}", "0", "None"])
def test_what_a_generator_returns_is_refused(tmp_path: Path, value: str) -> None:
    body = f"""
def start(self):
    yield {{"n": 1}}
    return {value}
def parse(self, response):
    yield {{"n": 1}}
    return {value}
"""
    worker = runs(tmp_path, body)
    for outcome in (asyncio.run(worker.page()), asyncio.run(worker.start())):
        if value == "None":
            assert items(outcome) == [{"n": 1}]
        else:
            assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
            assert f"its return value is lost: {value}; write yield from" in outcome.detail


def test_what_is_no_item_is_refused_before_the_pipelines(tmp_path: Path) -> None:
    worker = runs(tmp_path, "pipelines = [doubled]\ndef parse(self, response):\n    yield 42")
    outcome = asyncio.run(worker.page())
    assert "a callback yielded int '42'; yield items" in outcome.detail


def test_a_slow_pipeline_runs_in_a_thread_from_then_on(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
def slow(item, response):
    time.sleep(0.12)
    return {"thread": threading.current_thread().name}
pipelines = [slow]
def parse(self, response):
    yield {"n": 1}
""",
    )

    async def twice() -> list[Any]:
        return [items(await worker.page()), items(await worker.page())]

    first, second = asyncio.run(twice())
    assert first == [{"thread": "MainThread"}]
    assert second[0]["thread"].startswith("callback")


def test_opened_is_called_once_before_the_first_callback(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
class Rates:
    async def open(self, spider):
        await asyncio.sleep(0)
        self.rate = spider.rate + 1
    def process_item(self, item, response):
        return {**item, "rate": self.rate}
pipelines = [Rates]
language: str = "en"
times = 0
async def opened(self, task):
    await asyncio.sleep(0.01)
    self.times += 1
    self.rate = 10
    self.task = task
def parse(self, response):
    yield {"times": self.times, "task": self.task.id, "spider": self.task.spider,
           "arguments": self.task.arguments, "priority": self.task.priority}
""",
        language="de",
    )

    async def many() -> list[Any]:
        pages = [Request(f"http://shop.example/{n}") for n in range(5)]
        return [items(one)[0] for one in await asyncio.gather(*map(worker.run, pages))]

    expected = {
        "times": 1, "task": 7, "spider": "shop", "arguments": {"language": "de"}, "priority": 5,
        "rate": 11,
    }  # fmt: skip
    assert asyncio.run(many()) == [expected] * 5


def test_what_opened_raises_is_tried_again_as_a_failed_fetch_is(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
settings = {"retries": 1}
times = []
def opened(self, task):
    self.times.append(1)
    if len(self.times) < 3:
        raise OSError("no route")
def parse(self, response):
    yield {"times": len(self.times)}
""",
    )

    async def thrice() -> list[Any]:
        return [await worker.page(attempts=n) for n in range(3)]

    first, second, third = asyncio.run(thrice())
    assert (first.verdict, first.reason, first.delay > 0) == (Verdict.RETRY, "opened", True)
    assert (second.verdict, second.reason) == (Verdict.ERROR, "opened")
    assert "OSError: no route" in second.detail
    assert "shop.py" in second.detail
    assert items(third) == [{"times": 3}]


def test_opened_yields_nothing(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
settings = {"retries": 0}
def opened(self, task):
    yield Request("http://shop.example/")
""",
    )
    outcome = asyncio.run(worker.page())
    assert "opened yielded Request('http://shop.example/'); only callbacks" in outcome.detail


@pytest.mark.parametrize("where", ["quick", "slow", "waiting", "beside"])
def test_stats_and_log_know_the_request_wherever_it_runs(
    tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = """
def count(self, response):
    self.stats.inc("pages")
    self.stats.inc("bytes", len(response.body))
    self.stats.max("length", len(response.url))
    self.log.info("100%% of %s", "it")
"""
    body += {
        "quick": "def parse(self, response):\n    self.count(response)",
        "slow": "def parse(self, response):\n    time.sleep(0.12)\n    self.count(response)",
        "waiting": "async def parse(self, response):\n    await asyncio.sleep(0.01)\n"
        "    self.count(response)",
        "beside": "async def parse(self, response):\n"
        "    await asyncio.to_thread(self.count, response)",
    }[where]
    worker = runs(tmp_path, body)

    async def all_() -> list[Any]:
        await worker.page()
        pages = [Request(f"http://shop.example/{'n' * n}") for n in range(3)]
        return await asyncio.gather(*map(worker.run, pages))

    with caplog.at_level(logging.INFO, "spider.shop"):
        outcomes = asyncio.run(all_())
    for n, outcome in enumerate(outcomes):
        assert outcome.results.stats.counters == {"pages": 1, "bytes": 8}
        assert outcome.results.stats.maxima == {"length": 20 + n}
        record = next(one for one in caplog.records if vars(one).get("rid") == outcome.rid.hex())
        assert record.getMessage() == f"task 7 {outcome.url}: 100% of it"
        assert (record.name, record.funcName) == ("spider.shop", "count")
        assert (vars(record)["task"], vars(record)["url"]) == (7, outcome.url)


def test_log_and_stats_may_be_taken_when_the_spider_is_made(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
def __init__(self):
    self.count = self.stats.inc
    self.log.info("made")
def parse(self, response):
    self.count("pages")
""",
    )
    outcome = asyncio.run(worker.page())
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"pages": 1}


def test_nothing_is_counted_while_the_spider_is_made(tmp_path: Path) -> None:
    worker = runs(tmp_path, "def __init__(self):\n    self.stats.inc('made')")
    outcome = asyncio.run(worker.page())
    assert "self.stats.inc('made'): no callback runs here" in outcome.reason


def test_nothing_is_counted_in_a_thread_of_the_authors(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
def parse(self, response):
    found = []
    def count():
        try:
            self.stats.inc("beside")
        except Exception as error:
            found.append({"error": str(error)})
    thread = threading.Thread(target=count)
    thread.start()
    thread.join()
    yield from found
""",
    )
    (item,) = items(asyncio.run(worker.page()))
    assert "self.stats.inc('beside'): no callback runs here" in item["error"]


def test_stats_without_a_callback_are_refused(tmp_path: Path) -> None:
    worker = runs(
        tmp_path,
        """
settings = {"retries": 0}
def opened(self, task):
    self.stats.inc("opened")
""",
    )
    outcome = asyncio.run(worker.page())
    assert "self.stats.inc('opened'): no callback runs here" in outcome.detail


@pytest.mark.parametrize("pipelines", ["[doubled]", "[doubled, later]"])
def test_a_callback_closes_its_task_and_keeps_what_it_yielded(
    tmp_path: Path, pipelines: str
) -> None:
    worker = runs(
        tmp_path,
        f"""
pipelines = {pipelines}
def parse(self, response):
    yield {{"n": 1}}
    self.stats.inc("pages")
    raise CloseTask(" enough\\n now ")
""",
    )
    outcome = asyncio.run(worker.page())
    assert (outcome.verdict, outcome.results.closing) == (Verdict.DONE, "enough now")
    assert [item["n"] for item in items(outcome)] == [2]
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"pages": 1}


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_pipeline_closes_the_task(tmp_path: Path, kind: str) -> None:
    worker = runs(
        tmp_path,
        f"""
{kind} enough(item, response):
    if item["n"] == 3:
        raise CloseTask("x" * 500)
    return item
pipelines = [enough]
def parse(self, response):
    for n in range(6):
        yield {{"n": n}}
""",
    )
    outcome = asyncio.run(worker.page())
    assert (outcome.verdict, outcome.results.closing) == (Verdict.DONE, "x" * 200)
    assert [item["n"] for item in items(outcome)] == [0, 1, 2]


def test_opened_closes_the_task(tmp_path: Path) -> None:
    worker = runs(tmp_path, "def opened(self, task):\n    raise CloseTask('no key')")
    outcome = asyncio.run(worker.page())
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "cancelled")
    assert outcome.results.closing == "no key"


SUMMARY = Summary(
    task=7, spider="shop", arguments={}, outcome="finished", reason="",
    started_at=datetime(2026, 1, 1, tzinfo=UTC), finished_at=datetime(2026, 1, 2, tzinfo=UTC),
    requests=3, done=3, errors=0, cancelled=0, items=2, stats={"books": 2}, maxima={},
)  # fmt: skip
CLOSED = """
pipelines = [lambda item, response: {**item, "response": response}]
def closed(self, summary):
    self.stats.inc("closed")
    yield {"outcome": summary.outcome, "books": summary.stats["books"],
           "took": (summary.finished_at - summary.started_at).days}
"""


@pytest.mark.parametrize("state", ["running", "cancelling"])
def test_closed_has_the_last_word(tmp_path: Path, state: str) -> None:
    worker = runs(tmp_path, CLOSED)
    worker.summary = SUMMARY
    outcome = asyncio.run(worker.end(TaskView(state, 0)))
    assert (outcome.verdict, outcome.url, outcome.callback) == (Verdict.DONE, "end:", "closed")
    assert items(outcome) == [{"outcome": "finished", "books": 2, "took": 1, "response": None}]
    assert outcome.results.stats is not None
    assert outcome.results.stats.counters == {"closed": 1}


def test_closed_waits_when_something_else_is_left(tmp_path: Path) -> None:
    outcome = asyncio.run(runs(tmp_path, CLOSED).end())
    assert (outcome.verdict, outcome.delay) == (Verdict.DEFER, 1000)


@pytest.mark.parametrize(
    ("state", "verdict", "reason"),
    [
        ("running", Verdict.PARK, "spider 'shop' has no method 'closed'"),
        ("cancelling", Verdict.ERROR, "cancelled"),
    ],
)
def test_code_without_closed_does_not_hold_up_a_cancel(
    tmp_path: Path, state: str, verdict: Verdict, reason: str
) -> None:
    outcome = asyncio.run(runs(tmp_path, "pass").end(TaskView(state, 0)))
    assert (outcome.verdict, outcome.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("yield Request('http://shop.example/b')", "the task has ended: yield items, or submit"),
        ("raise CloseTask('again')", "closed raised CloseTask; the task has ended already"),
        ("{}['x']", "KeyError: 'x'"),
    ],
)
def test_what_closed_cannot_do_is_an_error(tmp_path: Path, line: str, words: str) -> None:
    worker = runs(tmp_path, f"def closed(self, summary):\n    yield {{'n': 1}}\n    {line}")
    worker.summary = SUMMARY
    outcome = asyncio.run(worker.end())
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "callback")
    assert words in outcome.detail
    assert (outcome.results.items, outcome.results.follow_ups, outcome.results.closing) == (
        [],
        [],
        "",
    )


def test_nothing_else_runs_in_a_task_that_is_cancelled(tmp_path: Path) -> None:
    worker = runs(tmp_path, CLOSED)
    request = Request(URL)
    claimed = Claimed(b"r" * 16, 7, request.host, 0, 0, request.encode())
    outcome = asyncio.run(worker.take(claimed, TaskView("cancelling", 0)))
    assert (outcome.verdict, outcome.reason) == (Verdict.ERROR, "cancelled")
