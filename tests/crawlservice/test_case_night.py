"""Cases of whole nights, by rows as nodes leave them: kept pages, items, findings and events."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.utils import timezone

from crawlframe.markup import parsers
from crawlframe.pages.stored import Packer, digest_of
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlservice.alerts.announcements import wants
from crawlservice.alerts.condition import Alarm, ServiceView, conditions
from crawlservice.alerts.state import record
from crawlservice.alerts.wording import spiders_of
from crawlservice.cases import decisions, state
from crawlservice.cases.blame import TrialResult
from crawlservice.cases.chores import CHORES
from crawlservice.cases.trial import _commits
from crawlservice.cases.watch import CaseWatch
from crawlservice.chores.chore import ChoreContext
from crawlservice.connections import clock
from crawlservice.connections.presence import Presence
from crawlservice.models import (
    Alert,
    AlertRule,
    Case,
    CaseSpider,
    Event,
    Finding,
    Installation,
    Item,
    KeptPage,
    Page,
    PageBody,
    Profile,
    Task,
)
from crawlservice.pages.retention import PageRetention
from crawlservice.pages.sources import source_pages
from tests.crawlservice.chores import until

pytestmark = [pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite", "postgres")]
GOOD, BAD = "1f001f001f00", "2a002a002a00"
PAGES = 4
Site = Callable[[str, int], str]


def plain(host: str, n: int) -> str:
    return (
        f'<html lang="en"><body><div class="product"><h1 class="name">{host} chair {n}</h1>'
        f'<p class="blurb">By hand</p><span class="price">${100 * n + 37}.50</span></div>'
        "</body></html>"
    )


def renamed(host: str, n: int) -> str:
    return plain(host, n).replace('class="price"', 'class="amount"')


def moved(host: str, n: int) -> str:
    price = f"${100 * n + 37}.50"
    data = f'<script type="application/json">{{"price": {price[1:]}}}</script>'
    return plain(host, n).replace(f'<span class="price">{price}</span>', data)


def redesigned(host: str, n: int) -> str:
    return (
        f'<html lang="en"><body class="v2"><main class="grid"><h2 class="t">{host} chair {n}</h2>'
    )


def challenge(host: str, n: int) -> str:
    return "<html><title>Just a moment...</title><body>Checking your browser</body></html>"


def extracted(text: str, version: str) -> dict[str, Any]:
    """A spider of two versions: the bad one reads another class."""
    price = "cost" if version == BAD else "price"
    found = {
        "title": re.search('class="(?:name|t)">([^<]+)', text),
        "price": re.search(rf'class="{price}">\$([\d.]+)', text),
    }
    return {name: one and one[1] for name, one in found.items()}


class Night:
    """Runs of spiders, each of one host of its own name unless another is given."""

    def __init__(self) -> None:
        Installation.objects.get_or_create(pk=1)
        self.trials: list[tuple[str, str, list[str]]] = []
        self.watch = CaseWatch(self.settled, self.begin)

    def settled(self) -> int:
        return Event.objects.order_by("-pk").values_list("pk", flat=True)[0]

    def begin(self, good: str, bad: str, pages: Mapping[str, list[int]]) -> Any:
        self.trials.append((good, bad, sorted(pages)))
        return DoneTrial(good, bad, pages)

    def run(
        self,
        spider: str,
        site: Site | None = plain,
        host: str = "",
        *,
        version: str = GOOD,
        reason: str = "",
        changed: bool = False,
        **fields: Any,
    ) -> Task:
        """``site``: None for a host that does not answer. ``changed``: its code reads ``cost``."""
        host = host or f"{spider}.example"
        task = Task.objects.create(
            spider=spider, arguments_hash=1, seeds=b"", state="finished",
            finished_at=timezone.now(), **fields,
        )  # fmt: skip
        lost = 0
        for n in range(PAGES):
            url, rid = f"https://{host}/p/{n}", uuid4()
            text = site(host, n) if site else ""
            item = extracted(text, BAD if changed else GOOD)
            filled = any(item.values())
            lost += not item["price"]
            error = reason or ("" if site else "dns")
            self._page(task, rid, url, error, version, items=int(filled and not error))
            if filled and not error:
                Item.objects.create(task=task, rid=rid, ordinal=0, data=item, version=version)
            if site:
                self._kept(task, rid, url, text, error)
        outcome = "finished" if not lost else "finished_with_errors"
        Task.objects.filter(pk=task.pk).update(outcome=outcome if site else "failed")
        Profile.objects.create(
            task=task, spider=spider, arguments_hash=1, content=b"", judged=True, good=not lost
        )
        if lost and site:
            found = {"source": "monitor", "monitor": "filled", "field": "price", "unit": "share"}
            if site is challenge:
                found |= {"monitor": "items", "field": "", "unit": "count"}
            Finding.objects.create(
                task=task, spider=spider, low=0.9, seen=0, version=version, told=True, **found
            )
        Event.objects.create(task=task, kind="finished" if site else "failed", outcome=outcome)
        return task

    def _page(self, task: Task, rid: UUID, url: str, reason: str, version: str, items: int) -> None:
        Page.objects.create(
            task=task, rid=rid, url=url, callback="parse", state="error" if reason else "done",
            reason=reason, depth=1, attempts=0, deliveries=0, size=9, fetch_ms=1, items=items,
            version=version,
        )  # fmt: skip

    def _kept(self, task: Task, rid: UUID, url: str, text: str, reason: str) -> None:
        data = text.encode()
        packed = Packer().pack(data)
        body, _ = PageBody.objects.get_or_create(
            digest=digest_of(data), defaults={"size": len(data), "data": packed, "stored": 9}
        )
        KeptPage.objects.create(
            rid=rid, task=task, url=url, host=url.split("/")[2], method="GET", status=200,
            reason=reason, headers={"received": [["Content-Type", "text/html"]]}, body=body,
            record=Request(url).encode(), sample=None if reason else "parse",
        )  # fmt: skip

    def look(self) -> list[Case]:
        """Several rounds, as many as a batch and its trials need."""
        for _ in range(12):
            self.watch.tick()
        return [*Case.objects.filter(Case.LIVE).order_by("pk")]


class DoneTrial:
    """Both versions of ``extracted`` on kept pages."""

    def __init__(self, good: str, bad: str, pages: Mapping[str, list[int]]) -> None:
        self.versions, self._pages = (good, bad), pages

    def results(self) -> dict[str, TrialResult]:
        return {spider: self._tried(spider, pages) for spider, pages in self._pages.items()}

    def _tried(self, spider: str, numbers: list[int]) -> TrialResult:
        seen, worse = Counter[str](), Counter[str]()
        new = self.versions[1] if spider.startswith("commit") else GOOD
        found, _ = source_pages(numbers)
        for page in found.values():
            was, now = (extracted(page.body.decode(), one) for one in (GOOD, new))
            seen.update(f"items.{name}" for name in was if was[name])
            worse.update(f"items.{name}" for name in was if was[name] != now[name])
        return TrialResult(len(found), seen, worse)

    def stop(self) -> None:
        pass


@pytest.fixture
def night() -> Iterator[Night]:
    found = Night()
    yield found
    found.watch.stop()


def told(cases: list[Case]) -> list[tuple[str, str, str, list[str]]]:
    return sorted(
        (case.cause, case.blame, case.host, [one.spider for one in case.spiders.all()])
        for case in cases
    )


def test_a_night_of_twenty_spiders_has_six_cases(night: Night) -> None:
    commit = [f"commit{n}" for n in range(5)]
    twins = ["twin0", "twin1"]  # of one site
    dead = [f"dead{n}" for n in range(3)]  # of one host
    alone = ["moved", "redesign", "guarded", *(f"well{n}" for n in range(7))]
    hosts = dict.fromkeys(twins, "twins.example") | dict.fromkeys(dead, "dead.example")
    spiders = [*commit, *twins, *dead, *alone]
    assert len(spiders) == 20
    for spider in spiders:
        night.run(spider, host=hosts.get(spider, ""))
    assert night.look() == []

    broken: dict[str, Site | None] = {"moved": moved, "redesign": redesigned, "guarded": challenge}
    broken |= dict.fromkeys(twins, renamed) | dict.fromkeys(dead, None)
    for spider in spiders:  # all run the new version; the sites of some have changed
        site = broken.get(spider, plain)
        night.run(
            spider, site, hosts.get(spider, ""), version=BAD, changed=spider.startswith("commit")
        )
    cases = night.look()
    assert told(cases) == [
        ("challenge", "site", "guarded.example", ["guarded"]),
        ("commit", "commit", "", commit),
        ("host_dead", "site", "dead.example", dead),
        ("moved", "site", "moved.example", ["moved"]),
        ("redesign", "site", "redesign.example", ["redesign"]),
        ("renamed", "site", "twins.example", twins),
    ]
    assert len(night.trials) == 1  # of all spiders at once
    again = [one.pk for one in night.look()]
    assert again == [one.pk for one in cases]
    by_cause = {case.cause: case for case in cases}
    assert by_cause["renamed"].fields == ["price"]
    assert by_cause["commit"].proof["worse"] == {"items.price": PAGES}
    assert by_cause["commit"].version == BAD


def test_ten_tasks_of_a_redesign_are_one_case_until_a_good_run(night: Night) -> None:
    good = night.run("shop")
    for _ in range(10):
        last = night.run("shop", renamed)
    (case,) = night.look()
    (row,) = case.spiders.all()
    assert (row.last_good, row.last_task, row.first_task) == (good.pk, last.pk, good.pk + 1)
    assert (case.blame, case.proof["blame"]) == ("site", "same_version")
    assert night.trials == []
    assert case.examples[0] == {
        "field": "price", "url": "https://shop.example/p/3", "old": "337.50", "new": "",
        "place": "span.amount", "old_page": case.examples[0]["old_page"],
        "new_page": case.examples[0]["new_page"],
    }  # fmt: skip
    pages = KeptPage.objects.in_bulk([case.examples[0]["old_page"], case.examples[0]["new_page"]])
    assert sorted(page.task_id for page in pages.values()) == [good.pk, good.pk + 1]

    night.run("shop")
    assert night.look() == []
    assert Case.objects.get().state == "fixed"
    night.run("shop", renamed)
    (later,) = night.look()
    assert (later.earlier, Case.objects.count()) == (case.pk, 2)


def test_pages_of_earlier_good_runs_are_compared_where_the_last_ones_have_none(
    night: Night,
) -> None:
    night.run("shop")
    for _ in range(4):
        KeptPage.objects.filter(task=night.run("shop")).delete()
    night.run("shop", renamed)
    (case,) = night.look()
    assert (case.cause, case.blame) == ("renamed", "site")


def test_a_case_that_a_person_closed_is_not_opened_by_the_same_run(night: Night) -> None:
    night.run("shop")
    task = night.run("shop", renamed)
    (case,) = night.look()
    assert decisions.acknowledge([case.pk], {"command": True}) == 1
    assert decisions.acknowledge([case.pk], {"command": True}) == 0
    assert night.look()[0].state == "acknowledged"
    assert decisions.close([case.pk], {"command": True}) == 1
    Event.objects.create(task=task, kind="quality_failed")
    assert night.look() == []
    with pytest.raises(decisions.CaseEnded, match=f"case {case.pk} is closed"):
        decisions.get_live(case.pk)
    night.run("shop", renamed)
    assert night.look()[0].earlier == case.pk


def test_a_later_run_that_tells_more_makes_an_unknown_case_known(night: Night) -> None:
    night.run("shop")
    bad = night.run("shop", renamed)
    KeptPage.objects.filter(task=bad).delete()
    (case,) = night.look()
    assert (case.cause, case.proof["lacks"]) == ("unknown", "bad")
    night.run("shop", renamed)
    (same,) = night.look()
    assert (same.pk, same.cause, same.host) == (case.pk, "renamed", "shop.example")
    worse = night.run("shop", renamed)
    KeptPage.objects.filter(task=worse).delete()
    (still,) = night.look()
    assert (still.pk, still.cause) == (case.pk, "renamed")


def test_hosts_that_refuse_us_at_the_same_time_are_one_case(night: Night) -> None:
    for spider in ("a", "b", "c", "d"):
        night.run(spider)
    for spider in ("a", "b"):
        night.run(spider, challenge, reason="http_403")
    two = night.look()
    assert [(case.cause, case.host) for case in two] == [
        ("challenge", "a.example"), ("challenge", "b.example"),
    ]  # fmt: skip
    night.run("c", plain, reason="http_429")
    (one,) = night.look()
    assert (one.cause, one.blame, one.host) == ("blocked", "we", "")
    assert one.proof["hosts"] == ["a.example", "b.example", "c.example"]
    assert sorted(one.spiders.values_list("spider", flat=True)) == ["a", "b", "c"]
    night.run("d", plain, reason="http_403")
    assert [case.pk for case in night.look()] == [one.pk]
    assert one.spiders.count() == 4


def test_new_code_and_no_checkout_is_unknown_and_says_so(night: Night) -> None:
    class Refused(DoneTrial):
        def results(self) -> dict[str, TrialResult]:
            return {name: TrialResult(problem="no git checkout") for name in self._pages}

    night.begin = Refused  # type: ignore[method-assign]
    night.watch = CaseWatch(lambda: 10**9, Refused)
    night.run("commit0")
    night.run("commit0", version=BAD, changed=True)
    (case,) = night.look()
    assert (case.cause, case.blame) == ("unknown", "unknown")
    assert (case.proof["blame"], case.proof["problem"]) == ("not_tried", "no git checkout")


def test_errors_of_one_reason_and_new_groups_open_cases_and_few_errors_do_not(night: Night) -> None:
    night.run("shop")
    task = night.run("shop")
    Page.objects.filter(pk=Page.objects.filter(task=task).first().pk).update(  # type: ignore[union-attr]
        state="error", reason="timeout"
    )
    assert night.look() == []


def test_cases_without_runs_are_closed_and_old_ones_deleted(night: Night) -> None:
    night.run("shop")
    night.run("shop", renamed)
    (case,) = night.look()
    Case.objects.update(seen_at=timezone.now() - state.MAX_AGE - timedelta(hours=1))
    state.end_old()
    assert Case.objects.get().state == "closed"
    Case.objects.update(ended_at=timezone.now() - state.KEPT_SPAN - timedelta(hours=1))
    state.end_old()
    assert not CaseSpider.objects.exists()
    assert case.pk


@pytest.mark.forks
def test_versions_that_cannot_be_tried_say_why(tmp_path: Any) -> None:
    from crawlframe.errors import CrawlframeError

    with pytest.raises(CrawlframeError, match="no git checkout"):
        _commits(tmp_path, GOOD, BAD)


def test_pages_of_the_last_good_run_stay_while_a_case_is_live(
    night: Night, settings_with: Callable[..., None]
) -> None:
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, keep_sample=4), KEEP_PAGES=1)
    good = night.run("shop")
    bad = night.run("shop", renamed)
    (case,) = night.look()
    for _ in range(5):
        night.run("shop", renamed)
    KeptPage.objects.filter(task=good).update(fetched_at=timezone.now() - timedelta(days=3))
    night.look()

    def kept() -> dict[int, int]:
        PageRetention(lambda: 1e9).step()
        return dict(Counter(KeptPage.objects.values_list("task", flat=True)))

    found = kept()
    assert (found[good.pk], found[bad.pk], sum(found.values())) == (PAGES, PAGES, 3 * PAGES)
    decisions.close([case.pk], {"command": True})
    assert good.pk not in (left := kept())
    assert sum(left.values()) == PAGES


# -- alerts ----------------------------------------------------------------------------------------


def alarms() -> dict[str, list[Alarm]]:
    view = ServiceView(clock.now(), lambda: None, [], {})  # type: ignore[arg-type, return-value]
    found = {}
    for name in ("case", "quality", "task_failed", "task_errors"):
        found[name] = [one for one in conditions()[name].find(view) if isinstance(one, Alarm)]
    return found


def test_a_case_has_an_alert_beside_those_of_its_runs(night: Night) -> None:
    night.run("shop")
    night.run("news")
    night.look()
    night.run("shop", renamed)
    assert {name: len(found) for name, found in alarms().items()} == {
        "case": 0, "quality": 1, "task_failed": 0, "task_errors": 1,
    }  # fmt: skip
    night.run("news", None)
    (case, other) = night.look()
    found = alarms()
    assert (len(found["quality"]), len(found["task_failed"])) == (1, 1)
    assert sorted(conditions()["case"].sentence(one.facts) for one in found["case"]) == [
        "news: news.example does not answer",
        "shop: shop.example has renamed the elements of price (span.price is span.amount now)",
    ]
    assert conditions()["case"].link(found["case"][0].facts) == (
        f"/admin/crawlservice/case/{other.pk}/change/"
    )
    decisions.close([other.pk], {"command": True})
    decisions.acknowledge([case.pk], {"command": True})
    record({"case": alarms()["case"]}, {}, clock.now())
    assert Alert.objects.get().acknowledged_at is not None


def test_owners_of_all_spiders_of_a_case_are_told() -> None:
    alert = Alert(kind="case", spider="a", facts={"spiders": ["a", "b"]})
    assert spiders_of(alert) == {"a", "b"}
    assert wants(AlertRule(spiders=["b"], least_severity=1), Alert(severity=3, facts=alert.facts))
    assert not wants(AlertRule(spiders=["c"], least_severity=1), Alert(severity=3, spider="a"))


# -- the chore -------------------------------------------------------------------------------------


def test_the_chore_has_work_while_there_are_new_events_or_live_cases(night: Night) -> None:
    (chore,) = CHORES
    presence = Presence({chore.name: chore.used})
    steward = ChoreContext(settings.CRAWLFRAME, None, lambda: None, lambda message: None)  # type: ignore[arg-type]
    work = chore.start(steward)
    assert presence.absent() == {"cases"}
    night.run("shop")
    assert presence.absent() == set()
    work.tick()
    assert presence.absent() == {"cases"}
    night.run("shop", renamed)
    work.tick()
    assert Case.objects.get().cause == "renamed"
    assert presence.absent() == set()  # until it is fixed
    night.run("shop")
    for _ in range(2):
        work.tick()
    assert (Case.objects.get().state, presence.absent()) == ("fixed", {"cases"})


class Exited(BaseException):
    """The process would have ended."""


def test_a_page_that_stops_its_parser_ends_the_steward_once(
    night: Night, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(code: int) -> None:
        raise Exited

    monkeypatch.setattr(Response, "max_parse", 0.01)
    monkeypatch.setattr("crawlservice.cases.watch.os._exit", leave)
    names = " ".join(f"a{n}" for n in range(14_000))
    slow = lambda host, n: renamed(host, n) + f"<p {names}>" + "x" * (64 << 10)  # noqa: E731
    night.run("shop")
    night.run("shop", slow, reason="http_403")
    assert night.look()  # pages in error are short enough for any parser
    night.run("news")
    night.run("news", slow)
    with pytest.raises(Exited):
        night.look()
    until(lambda: not parsers.stuck())
    night.watch = CaseWatch(night.settled, night.begin)  # of the next steward
    night.look()
    night.run("news", renamed)
    assert "news.example" in {case.host for case in night.look()}
