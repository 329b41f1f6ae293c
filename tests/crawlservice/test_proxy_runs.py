"""Lists of proxies that the tasks of a spider name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_network
from typing import Any

import msgspec
import pytest
from django.test import Client

from crawlframe import Proxy as Item
from crawlframe import Response, Spider
from crawlframe.base.secret import Secret
from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.run.ledger import LedgerRefused
from crawlframe.run.outcome import Outcome
from crawlframe.spider.spider import SpiderInfo
from crawlframe.testing import make_response, run
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, Page, Proxy, ProxySource, Stat, Task
from crawlservice.models import Item as Row
from crawlservice.proxies import check, runs, sources
from crawlservice.proxies.entry import read_lines, store
from crawlservice.security.sealing import seal, unseal
from crawlservice.tasks.progress.outcomes import named_proxies
from tests.crawlservice.programs import person, program
from tests.crawlservice.test_store import outcome
from tests.proxy_server import ProxyServer, running

pytestmark = pytest.mark.databases("sqlite", "postgres")

LOGIN = "http://MARKED-user:MARKED-word@a.example:1"


@pytest.fixture
def source(service: Frontier) -> ProxySource:
    return ProxySource.objects.create(
        name="found", spider="lists", sealed_place=seal("{}"), tier=2, tags="free"
    )


def make_task(**fields: Any) -> Task:
    return Task.objects.create(spider="lists", seeds=b"", **fields)


def page(task: Task, name: str, *proxies: str | Item) -> Outcome:
    made = outcome(task, name)
    made.results.proxies = [one if isinstance(one, Item) else Item(one) for one in proxies]
    return made


def end(task: Task, **fields: Any) -> None:
    ended = {"state": Task.State.FINISHED, "outcome": Task.Outcome.FINISHED, **fields}
    Task.objects.filter(pk=task.pk).update(**ended)
    runs.judge_ended()


def urls() -> set[str]:
    return {*Proxy.objects.values_list("url", flat=True)}


# -- proxies named by pages ------------------------------------------------------------------------


def test_what_a_page_names_enters_the_pool_once_and_sealed(source: ProxySource) -> None:
    task, ledger = make_task(), DjangoLedger()
    first = page(task, "a", LOGIN, Item("b.example:1", tier=5, tags=["fast"], country="de"))
    ledger.commit([first])
    ledger.commit([page(task, "a", "other.example:1")])  # a second run of the same request
    found = {row.url: row for row in Proxy.objects.all()}
    assert set(found) == {"http://a.example:1", "http://b.example:1"}
    plain, own = found["http://a.example:1"], found["http://b.example:1"]
    assert (plain.tier, plain.tags, plain.state) == (2, "free", Proxy.State.NEW)
    assert (own.tier, own.tags, own.country) == (5, "fast free", "DE")
    assert unseal(plain.sealed_login) == "MARKED-user:MARKED-word"
    stored: list[Any] = [Proxy, Page, Row, Task, ProxySource]
    assert "MARKED" not in repr([[*model.objects.values()] for model in stored])
    assert "MARKED" not in repr(first)


def test_a_refused_page_adds_nothing(source: ProxySource) -> None:
    task = make_task()
    bad = page(task, "a", "a.example:1")
    bad.task = task.pk + 1000
    with pytest.raises(LedgerRefused):
        DjangoLedger().commit([bad])
    assert urls() == set()


def test_a_spider_that_no_list_names_is_refused_with_the_fix(service: Frontier) -> None:
    with pytest.raises(LedgerRefused, match="add one in the admin"):
        DjangoLedger().commit([page(make_task(), "a", "a.example:1")])
    assert not Page.objects.exists()


def test_a_list_goes_with_the_arguments_of_the_task(source: ProxySource) -> None:
    german = ProxySource.objects.create(
        name="german", spider="lists", sealed_place=seal('{"country": "de"}')
    )
    started = ProxySource.objects.create(
        name="started", spider="lists", sealed_place=seal('{"country": "fr"}')
    )
    task = make_task(arguments={"country": "de", "pages": 3})
    assert runs.list_of(task) == german
    assert runs.list_of(make_task(arguments={"country": "it"})) == source
    started.run = task.pk
    started.save()
    assert runs.list_of(task) == started


def test_what_operators_have_entered_stays_as_it_is(source: ProxySource) -> None:
    store(read_lines(["http://a.example:1"], tier=9)[0])
    task = make_task()
    DjangoLedger().commit([page(task, "a", Item("a.example:1"), Item("b.example:1"))])
    assert Proxy.objects.get(url="http://a.example:1").tier == 9
    end(task)
    end(later := make_task())
    DjangoLedger().commit([page(later, "b", "c.example:1")])
    assert "http://a.example:1" in urls()


# -- complete runs ---------------------------------------------------------------------------------


@pytest.fixture
def named(source: ProxySource) -> Task:
    """A second run, which has named one of two proxies."""
    first, second = make_task(), make_task()
    DjangoLedger().commit([page(first, "a", "a.example:1", "b.example:1")])
    end(first)
    assert len(urls()) == 2
    DjangoLedger().commit([page(second, "b", "b.example:1")])
    return second


def test_a_complete_run_removes_what_it_has_not_named(named: Task, source: ProxySource) -> None:
    kept = Proxy.objects.get(url="http://b.example:1").pk
    assert len(urls()) == 2
    end(named)
    assert [*Proxy.objects.values_list("pk", flat=True)] == [kept]
    source.refresh_from_db()
    assert (source.found, source.problem, source.judged) == (1, "", named.pk)
    assert source.read_at is not None


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": Task.Outcome.FAILED, "reason": "none of its pages"},
        {"outcome": Task.Outcome.FINISHED_WITH_ERRORS, "ne": 1},
        {"outcome": Task.Outcome.CANCELLED, "state": Task.State.CANCELLED},
        {"closing": "byte_limit"},
        {"ne": 1},  # excluded by robots.txt
    ],
)
def test_a_run_that_is_not_complete_removes_nothing(
    named: Task, source: ProxySource, fields: dict[str, Any]
) -> None:
    end(named, **fields)
    assert len(urls()) == 2
    source.refresh_from_db()
    assert "no proxy was removed" in source.problem
    later = make_task()
    DjangoLedger().commit([page(later, "c", "c.example:1")])
    end(later)
    assert urls() == {"http://c.example:1"}
    source.refresh_from_db()
    assert source.problem == ""


def test_nor_does_one_whose_links_a_limit_has_refused(named: Task, source: ProxySource) -> None:
    Stat.objects.create(task=named, kind="counter", name="unfollowed/page_limit", value=1)
    end(named)
    assert len(urls()) == 2


def test_nor_one_that_names_none(named: Task, source: ProxySource) -> None:
    end(named)
    end(make_task())
    assert urls() == {"http://b.example:1"}
    source.refresh_from_db()
    assert "has named no proxy" in source.problem


def test_an_earlier_run_that_ends_later_removes_nothing(source: ProxySource) -> None:
    slow, quick = make_task(), make_task()
    DjangoLedger().commit([page(quick, "a", "a.example:1"), page(slow, "b", "b.example:1")])
    end(quick)
    end(slow)
    assert urls() == {"http://a.example:1"}


def test_a_run_that_names_proxies_and_has_no_items_is_a_good_one(source: ProxySource) -> None:
    task = make_task(state=Task.State.RUNNING, na=2, nf=2)
    DjangoLedger().commit([page(task, "a", "a.example:1")])
    assert named_proxies(task)
    assert not named_proxies(make_task())


def test_a_short_run_of_another_list_does_not_hide_a_long_one(source: ProxySource) -> None:
    ProxySource.objects.create(
        name="german", spider="lists", sealed_place=seal('{"country": "de"}')
    )
    DjangoLedger().commit([page(first := make_task(), "a", "a.example:1", "b.example:1")])
    end(first)
    long, short = make_task(), make_task(arguments={"country": "de"})
    DjangoLedger().commit([page(long, "b", "a.example:1"), page(short, "c", "c.example:1")])
    end(short)
    end(long)
    assert urls() == {"http://a.example:1", "http://c.example:1"}


def test_pages_of_a_list_that_is_deleted_meanwhile_are_refused(
    source: ProxySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "_list_of_task", lambda task: source)
    ProxySource.objects.all().delete()
    with pytest.raises(LedgerRefused, match="'found' was deleted"):
        DjangoLedger().commit([page(make_task(), "a", "a.example:1")])
    assert urls() == set()


# -- starting --------------------------------------------------------------------------------------


def test_its_spider_is_started_when_it_is_due(published: Frontier) -> None:
    arguments = seal('{"city": "MARKED"}')
    row = ProxySource.objects.create(name="l", spider="shop", sealed_place=arguments, every=600)
    runs.start_due()
    runs.start_due()
    task = Task.objects.get()
    row.refresh_from_db()
    assert (row.run, row.problem, task.arguments["city"]) == (task.pk, "", "MARKED")
    assert row.next_at is not None
    ProxySource.objects.update(next_at=None)
    runs.start_due()  # the first one is still running
    assert Task.objects.count() == 1
    assert not sources.any_due()  # nor is it read as a file


def test_one_that_cannot_be_started_says_why(published: Frontier) -> None:
    row = ProxySource.objects.create(name="l", spider="shpo", sealed_place=seal("{}"))
    own = ProxySource.objects.create(name="o", spider="shop", sealed_place=seal("{}"), every=0)
    runs.start_due()
    row.refresh_from_db()
    own.refresh_from_db()
    assert "shpo" in row.problem
    assert (own.next_at, Task.objects.count()) == (None, 0)


# -- trust -----------------------------------------------------------------------------------------


def test_a_private_address_that_a_page_names_is_not_used(source: ProxySource) -> None:
    server = ProxyServer()
    with running(server):
        DjangoLedger().commit([page(make_task(), "a", server.line)])
        strict, open_ = (replace(Settings(), allow_private=nets) for nets in ((), LOOPBACK))
        (refused,) = check.check_all(strict, [*Proxy.objects.all()]).values()
        assert "no public address" in refused.problem
        assert server.connections == 0
        (allowed,) = check.check_all(open_, [*Proxy.objects.all()]).values()
    assert allowed.problem == ""
    (stored,) = DjangoLedger().access.proxies()
    assert stored.proxy.of_pool
    assert not stored.proxy.trusted


LOOPBACK = (ip_network("127.0.0.0/8"),)


# -- admin and API ---------------------------------------------------------------------------------


def test_the_admin_enters_lists_of_spiders(
    published: Frontier, shop: SpiderInfo, as_role: Callable[[str], Client]
) -> None:
    takes = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    others = [msgspec.structs.replace(shop, name=name) for name in ("lists", "other")]
    published.spiders.publish([msgspec.structs.replace(one, arguments=takes) for one in others])
    client, place = as_role("administrator"), "/admin/crawlservice/proxysource/"
    make_task()
    form = {
        "name": "found", "spider": "lists", "place": '{"key": "MARKED"}', "every": 0, "tier": 0,
        "tags": "", "country": "", "max_concurrency": 0, "enabled": "on",
    }  # fmt: skip
    for wrong, words in (
        ({"place": "[1]"}, "are a JSON object"),
        ({"every": 5}, "at least 10 seconds"),
        ({"spider": "", "place": ""}, "or a spider"),
        ({"spider": "list"}, "did you mean &#x27;lists&#x27;?"),
        ({"place": '{"keys": "x"}'}, "has no argument &#x27;keys&#x27;"),
        ({"place": '{"key": 5}'}, "argument &#x27;key&#x27; of spider &#x27;lists&#x27;"),
        ({"place": "", "every": 60}, "needs the argument &#x27;key&#x27;"),
    ):
        answer = client.post(f"{place}add/", {**form, **wrong})
        assert answer.status_code == 200, wrong
        assert words in answer.content.decode(), wrong
    assert client.post(f"{place}add/", form).status_code == 302
    row = ProxySource.objects.get()
    assert runs.arguments_of(row) == {"key": "MARKED"}
    assert row.judged == Task.objects.get().pk
    change = f"{place}{row.pk}/change/"
    assert client.post(change, {**form, "place": "", "tier": 3}).status_code == 302
    row.refresh_from_db()
    assert (row.tier, runs.arguments_of(row)) == (3, {"key": "MARKED"})
    # Another spider does not get the arguments, which may be secrets of this one.
    assert client.post(change, {**form, "place": "", "spider": "other"}).status_code == 302
    row.refresh_from_db()
    assert runs.arguments_of(row) == {}
    for one in (place, change):
        assert "MARKED" not in client.get(one).content.decode()
    assert "MARKED" not in repr([*Action.objects.values_list("detail")])


def test_the_api_of_lists(published: Frontier) -> None:
    caller = program(person("administrator"))
    given = {"name": "found", "spider": "shop", "arguments": {"city": "MARKED"}, "tags": ["free"]}
    answer = caller.post("proxy-lists", given)
    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert (made["spider"], made["tags"], made["found"]) == ("shop", ["free"], 0)
    assert caller.post("proxy-lists", given).status_code == 409
    for wrong in (
        {"name": "x"}, {"name": "x", "place": "rel"}, {"name": "x", "spider": "s", "every": 3},
        {"name": "x", "spider": "s", "place": "/x"}, {"name": "x", "arguments": {"a": 1}},
        {"name": "x", "spider": "s", "tier": -1}, {"name": "x", "spider": "shop"},
    ):  # fmt: skip
        assert caller.post("proxy-lists", wrong).status_code == 422, wrong
    unknown = caller.post("proxy-lists", {"name": "x", "spider": "shpo"}).json()
    assert unknown["error"]["field"] == "spider", unknown
    unfit = caller.post("proxy-lists", {"name": "x", "spider": "shop", "arguments": {"a": 1}})
    assert unfit.json()["error"]["field"] == "arguments"
    listed = caller.get("proxy-lists")
    assert len(listed.json()["lists"]) == 1
    place = f"proxy-lists/{made['id']}"
    assert caller.post(f"{place}/read", {}).status_code == 200
    ProxySource.objects.update(every=0)
    assert caller.post(f"{place}/read", {}).status_code == 409
    assert caller.delete(place).status_code == 204
    assert caller.delete(place).status_code == 404
    assert "MARKED" not in listed.content.decode() + repr([*Action.objects.values_list("detail")])
    assert program(person("viewer")).get("proxy-lists").status_code == 403


# -- the item --------------------------------------------------------------------------------------


def test_the_item_shows_no_credentials() -> None:
    proxy = Item(LOGIN, tags=["eu"], country="de", tier=1, max_concurrency=3)
    assert (proxy.url, proxy.username) == ("http://a.example:1", "MARKED-user")
    assert (proxy.password, proxy.country) == (Secret("MARKED-word"), "DE")
    assert "MARKED" not in f"{proxy} {proxy!r}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": "http://u:MARKED@a"}, {"text": "a:1", "tier": 256}, {"text": "a:1", "tags": "eu"},
        {"text": "a:1", "tags": ["E U"]}, {"text": "a:1", "country": "deu"}, {"text": 5},
        {"text": "a:1", "max_concurrency": -1}, {"text": "a:1", "scheme": "ftp"},
    ],
)  # fmt: skip
def test_what_is_no_proxy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"[Pp]rox|tag|country|tier|scheme") as caught:
        Item(**wrong)
    assert "MARKED" not in str(caught.value)


def test_a_spider_yields_them_beside_its_items() -> None:
    class Lists(Spider):
        name = "lists"
        pipelines = (lambda item, response: {**item, "seen": True},)

        def parse(self, response: Response) -> Any:
            yield Item(LOGIN)
            yield {"a": 1}

    result = run(Lists, make_response(url="http://lists.example/"))
    assert [proxy.url for proxy in result.proxies] == ["http://a.example:1"]
    assert result.items == [{"a": 1, "seen": True}]
    assert "MARKED" not in repr(result)
