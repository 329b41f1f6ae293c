"""Rules of aliases in the service: learned from kept pages, verified at a real site, given to
tasks, shown and revoked."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from crawlframe.aliases.learn import learn
from crawlframe.aliases.verify import AliasVerdict
from crawlframe.frontier import Frontier
from crawlframe.pages.copy import HeldBytes, PageCopy
from crawlframe.request.request import Request, make_rid
from crawlframe.run.outcome import Outcome
from crawlframe.spider.spider import SpiderInfo
from crawlservice.aliases import fetching, rules
from crawlservice.aliases.fetching import Where
from crawlservice.hosts import orders
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, AliasRule, KeptPage, PageBody, Task, TaskAliases
from crawlservice.pages import bodies
from crawlservice.tasks import removal
from crawlservice.tasks.submit import submit
from tests.aliases.site import Site, served
from tests.aliases.trial import HERE

pytestmark = pytest.mark.usefixtures("service")
BOTH = pytest.mark.databases("sqlite", "postgres")  # SQL that differs, or locks rows
PLACE = "/admin/crawlservice/aliasrule/"
TELL = "http://shop.example"


@pytest.fixture
def site() -> Iterator[tuple[Site, str]]:
    site = Site(16)
    with served(site) as origin, override_settings(CRAWLFRAME=HERE):
        yield site, origin


def keep(task: Task, site: Site, origin: str, targets: list[str]) -> None:
    """Keeps pages as a worker that has fetched these."""
    done = []
    for target in targets:
        request = Request(origin + target)
        rid = make_rid(task.pk, request.fingerprint())
        outcome = Outcome(rid, task.pk, request.host, request.encode(), 1, 1)
        outcome.url = request.url
        status, text = site.answer(target)
        headers = {"sent": [], "received": [["Content-Type", "text/html; charset=utf-8"]]}
        outcome.results.page = PageCopy(
            *(request.url, request.host, "GET", status, headers, text.encode()),
            *(request.encode(), HeldBytes()),
        )
        outcome.results.page.size = len(outcome.results.page.body)
        done.append(outcome)
    DjangoLedger().commit(done)
    site.fetched.clear()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("alias", *arguments, stdout=out, stderr=out)
    return out.getvalue()


@pytest.fixture
def kept(site: tuple[Site, str]) -> Task:
    """A task that has fetched items with and without a session."""
    task = Task.objects.create(spider="shop", seeds=b"")
    targets = [f"/item/{n}" for n in range(12)]
    sessions = [f"/item/{n}?sid={n:020x}1b" for n in range(12)]
    keep(task, *site, [*targets, *sessions])
    return task


def stored(state: str = "verified", name: str = "sid") -> AliasRule:
    rule = {"origin": TELL, "kind": "query", "names": [name], "places": ["a?"]}
    return AliasRule.objects.create(
        origin=TELL, kind="query", rule=rule, key=name, state=state, support=7,
        examples=[[f"{TELL}/a", f"{TELL}/a?sid=<b>"]], counterexamples=[[f"{TELL}/x", f"{TELL}/y"]],
    )  # fmt: skip


@BOTH
def test_rules_are_learned_and_verified(site: tuple[Site, str], kept: Task) -> None:
    told = run("learn", str(kept.pk), "--delay", "0")
    (row,) = AliasRule.objects.all()
    assert (row.state, row.support, row.contradictions, row.compared) == ("verified", 12, 0, 5)
    assert f"{row.pk} {site[1]}: ignore sid is verified" in told
    assert "24 pages: 1 rules to be verified" in told
    fetched = site[0].fetched
    assert fetched.pop("/robots.txt") == 1
    assert (fetched.total(), row.fetches) == (10, 10)
    again = run("learn", "--spider", "shop", "--delay", "0")
    assert "0 rules to be verified, 1 verified before" in again
    assert site[0].fetched.total() == 10
    assert Action.objects.filter(verb="learn aliases").count() == 2


def test_bodies_are_read_in_small_batches(
    site: tuple[Site, str], kept: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a site of large pages fills no memory."""
    largest = max(PageBody.objects.values_list("size", flat=True))
    monkeypatch.setattr(bodies, "MOST_BYTES", 3 * largest)
    sizes: list[int] = []

    read = bodies.read

    def noted(numbers: set[int]) -> dict[int, bytes]:
        sizes.append(len(numbers))
        return read(numbers)

    monkeypatch.setattr(bodies, "read", noted)
    assert len([*fetching.samples(Where(kept.pk))]) == 24
    assert sum(sizes) == 24
    assert max(sizes) <= 6


@pytest.mark.parametrize("prefix", ["ann:secret@", f"{'a' * 400}:secret@"])
def test_a_rule_is_not_about_every_origin(site: tuple[Site, str], kept: Task, prefix: str) -> None:
    """Passwords stay out of rules, and an origin has room for a DNS name."""
    numbers = KeptPage.objects.values_list("pk", flat=True)
    for row in KeptPage.objects.filter(pk__in=[*numbers]):
        url = row.url.replace("://", f"://{prefix}")
        KeptPage.objects.filter(pk=row.pk).update(url=url, record=Request(url).encode())
    said = run("learn", str(kept.pk), "--pairs", "0")
    assert "secret" not in said + str([*AliasRule.objects.values()])


@pytest.mark.parametrize(("what", "told"), [("revoke", "is revoked"), ("forget", "1 rules")])
def test_somebody_decides_while_it_is_verified(
    kept: Task, monkeypatch: pytest.MonkeyPatch, what: str, told: str
) -> None:
    real = rules.decide

    def decide(row: AliasRule, verdict: AliasVerdict) -> AliasRule | None:
        one = AliasRule.objects.get()
        rules.revoke([one]) if what == "revoke" else rules.forget(one)
        return real(row, verdict)

    monkeypatch.setattr(rules, "decide", decide)
    assert told in run("learn", str(kept.pk), "--delay", "0")
    assert [row.state for row in AliasRule.objects.all()] == ["revoked"] * (what == "revoke")


def test_a_revoked_rule_is_not_proposed_by_who_read_it_before(kept: Task) -> None:
    run("learn", str(kept.pk), "--pairs", "0")
    (found,) = learn(fetching.samples(Where(kept.pk)))
    create = AliasRule.objects.get_or_create

    def slow(**given: Any) -> Any:
        got = create(**given)
        rules.revoke([got[0]])
        return got

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AliasRule.objects, "get_or_create", slow)
        assert rules.note(found) is None
    assert AliasRule.objects.get().state == "revoked"


def test_what_is_not_verified_is_not_used(site: tuple[Site, str], kept: Task) -> None:
    assert "1 of them are only proposed" in run("learn", str(kept.pk), "--pairs", "0")
    assert site[0].fetched.total() == 0
    orders.pause(site[1].partition("://")[2], {})
    assert "is paused" in run("learn", str(kept.pk), "--delay", "0")
    assert site[0].fetched.total() == 0, "a host that an operator has paused is left alone"
    assert AliasRule.objects.get().state == "proposed"


def test_the_host_of_a_kept_page_has_a_port(site: tuple[Site, str], kept: Task) -> None:
    name, port = site[1].removeprefix("http://").split(":")
    with pytest.raises(CommandError, match=f"host {name}; say the port: {name}:{port}"):
        run("learn", str(kept.pk), "--host", name)
    assert "1 rules to be verified" in run("learn", "--host", f"{name}:{port}", "--pairs", "0")


def test_a_fetch_keeps_the_pace_of_all_others(
    site: tuple[Site, str], kept: Task, service: Frontier
) -> None:
    """As while a task crawls the host, or another command learns its rules."""
    host = site[1].removeprefix("http://")
    assert service.permits.ask_apart(host, b"another", 1000, 9000, 1500, 8).given
    began = time.monotonic()
    assert "is verified" in run("learn", str(kept.pk), "--delay", "0")
    assert time.monotonic() - began > 1.3


def test_hosts_are_verified_at_the_same_time(site: tuple[Site, str], kept: Task) -> None:
    other = Site(16)
    with served(other) as origin:
        task = Task.objects.create(spider="shop", seeds=b"")
        targets = [f"/item/{n}" for n in range(12)]
        keep(task, other, origin, [*targets, *(f"{one}?sid={'0' * 19}7c" for one in targets)])
        orders.pause(site[1].removeprefix("http://"), {})
        told = run("learn", "--spider", "shop", "--delay", "0")
        assert f"{origin}: ignore sid is verified" in told
        assert f"{site[1]}: ignore sid is proposed: " in told
        assert site[0].fetched.total() == 0


def test_a_site_that_has_changed_refutes_its_rule(site: tuple[Site, str], kept: Task) -> None:
    site[0].apart = True
    assert "is refuted" in run("learn", str(kept.pk), "--delay", "0")
    site[0].apart = False
    assert "0 rules to be verified; 1 that" in run("learn", str(kept.pk), "--delay", "0")


@BOTH
def test_pages_against_a_verified_rule(site: tuple[Site, str], kept: Task) -> None:
    run("learn", str(kept.pk), "--delay", "0")
    site[0].apart = True
    later = Task.objects.create(spider="shop", seeds=b"")
    keep(later, *site, [f"/item/{n}{s}" for n in range(9) for s in ("", f"?sid={n:020x}2c")])
    told = run("learn", str(later.pk), "--delay", "0")
    assert "is refuted" in told
    assert AliasRule.objects.get().state == "refuted"


@BOTH
def test_a_revoked_rule_is_not_learned_again(kept: Task) -> None:
    run("learn", str(kept.pk), "--delay", "0")
    row = AliasRule.objects.get()
    for verb in ("revoke", "forget"):
        assert f"this would {verb} {row.origin}: " in run(verb, str(row.pk), "--dry-run")
    assert "1 revoked" in run("revoke", str(row.pk))
    assert "1 that were revoked or refuted" in run("learn", str(kept.pk), "--delay", "0")
    row.refresh_from_db()
    assert (AliasRule.objects.count(), row.state) == (1, "revoked")
    run("forget", str(row.pk))
    assert "1 rules to be verified" in run("learn", str(kept.pk), "--delay", "0")
    verbs = {*Action.objects.values_list("verb", flat=True)}
    assert {"revoke aliases", "forget aliases"} <= verbs


def test_the_command_says_what_is_wrong() -> None:
    for arguments, problem in (
        (["learn"], "say from which pages"),
        (["learn", "77"], "there is no task 77; list them"),
        (["learn", "--spider", "nobody"], "no pages are kept of spider nobody"),
        (["learn", "1", "--pairs", "-1"], "--pairs is -1"),
        (["show", "77"], "there is no rule 77"),
        (["show", str(1 << 70)], "there is no rule"),
        (["revoke", str(1 << 70)], "there is no rule"),
        (["learn", str(1 << 70)], "there is no task"),
    ):
        with pytest.raises(CommandError, match=problem):
            run(*arguments)
    assert "no rules" in run("list")
    row = stored()
    assert "ignore sid" in run("list", "--state", "verified", "--host", "shop.example")
    assert "no rules" in run("list", "--state", "revoked")
    assert f"equal: {TELL}/a\n" in run("show", str(row.pk))


# -- tasks ----------------------------------------------------------------------------------------


def test_a_task_keeps_the_rules_of_its_beginning(published: Frontier, shop: SpiderInfo) -> None:
    row = stored()
    stored("proposed", "other")
    plain = submit("shop", {"city": "Ulm"})
    task = submit("shop", {"city": "Ulm"}, settings={"aliases": True})
    rules.revoke([row])
    later = submit("shop", {"city": "Ulm"}, settings={"aliases": True})
    specs = [DjangoLedger().tasks.spec(one.pk) for one in (plain, task, later)]
    found = [[str(one) for one in spec.aliases] for spec in specs if spec is not None]
    assert found == [[], ["ignore sid"], []]


def test_the_rules_of_a_task_go_with_it(published: Frontier) -> None:
    stored()
    task = submit("shop", {"city": "Ulm"}, settings={"aliases": True})
    assert TaskAliases.objects.filter(task=task).exists()
    Task.objects.filter(pk=task.pk).update(state="finished")
    published.cancel(task.pk, 5)
    published.close_tasks([task.pk])
    list(removal.remove(Task.objects.filter(pk=task.pk)))
    assert not TaskAliases.objects.exists()


# -- admin ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("role", "may"), [("submitter", False), ("operator", True)])
def test_the_admin(
    published: Frontier, as_role: Callable[[str], Client], role: str, may: bool
) -> None:
    row, client = stored(), as_role(role)
    page = client.get(PLACE, {"q": "shop"}).content.decode()
    assert "ignore sid" in page
    assert ("Revoke selected rules" in page) == may
    detail = client.get(f"{PLACE}{row.pk}/change/").content.decode()
    assert f"{TELL}/a?sid=&lt;b&gt;" in detail
    assert f"{TELL}/y" in detail
    chosen: dict[str, Any] = {"action": "revoke", "_selected_action": [row.pk]}
    client.post(PLACE, chosen)
    row.refresh_from_db()
    assert row.state == ("revoked" if may else "verified")
    assert Action.objects.filter(verb="revoke aliases", name=role).exists() == may
