"""Nodes that die stay visible: until they come back, are forgotten, or are pruned."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from pathlib import Path
from threading import Barrier

import orjson
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.node.code import Code
from crawlservice.ledger.recovery import renew
from crawlservice.models import Action, Delivery, Event, Generation, Webhook
from crawlservice.monitoring import lives
from crawlservice.monitoring.nodes import read
from crawlservice.security.sealing import seal
from crawlservice.services import DjangoServices
from crawlservice.steward.pruning import ended_lives
from crawlservice.steward.steward import Steward
from crawlservice.webhooks import deliveries
from tests.crawlservice.programs import person, program
from tests.crawlservice.test_steward import turn_until
from tests.crawlservice.web import rows

pytestmark = pytest.mark.usefixtures("few_chores")
both = pytest.mark.databases("sqlite", "postgres")

OFFLINE, BACK = Event.Kind.NODE_OFFLINE, Event.Kind.NODE_BACK


def kinds() -> list[tuple[str, str]]:
    return [*Event.objects.order_by("pk").values_list("kind", "node")]


def up() -> dict[str, float]:
    page = Client(SERVER_NAME="localhost").get("/metrics").content.decode()
    families = {family.name: family for family in text_string_to_metric_families(page)}
    samples = families["crawlframe_node_up"].samples
    return {sample.labels["node"]: sample.value for sample in samples}


def node(*words: str) -> str:
    out = StringIO()
    call_command("node", *words, stdout=out)
    return out.getvalue()


@pytest.fixture
def died(service: Frontier) -> int:
    """The last life of alpha, which held 7 requests."""
    life = lives.begin("alpha", "alpha.example", 4711)
    assert lives.die(life, 7)
    return life


@both
def test_a_death_is_one_event_and_so_is_the_return() -> None:
    life = lives.begin("alpha", "m", 1)
    assert kinds() == []
    assert [lives.die(life, 7), lives.die(life, 7)] == [True, False]
    second = lives.begin("alpha", "m", 2)
    assert lives.begin("alpha", "m", 3) > second
    assert kinds() == [(OFFLINE, "alpha"), (BACK, "alpha")]
    assert fates() == [("died", False), ("replaced", False), ("", False)]
    assert lives.offline() == []


@both
def test_of_stewards_that_find_it_at_the_same_time_one_tells() -> None:
    life = lives.begin("alpha", "m", 1)

    def die(_: int) -> bool:
        try:
            return lives.die(life, 7)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(die, range(4))) == [False, False, False, True]
    assert kinds() == [(OFFLINE, "alpha")]


def test_a_node_that_was_stopped_is_not_missed() -> None:
    life = lives.begin("alpha", "m", 1)
    lives.leave(life)
    assert not lives.die(life, 7)
    assert (lives.offline(), kinds()) == ([], [])


def test_a_node_that_ends_by_itself_is_not_missed(service: Frontier) -> None:
    """Like the node of a killed `crawl`: no node of its name ever comes back."""
    renew(service)
    code = Code(Path("spiders"), Path("manage.py"))
    services = DjangoServices(Settings(), "", code, once=True)
    life = services.begin_generation("alpha.crawl77", "m", 1)
    service.leases.renew(life, 0.001)
    turn_until(Steward(Settings(), service), lambda: service.leases.left() == {})
    assert [*Generation.objects.values_list("fate", "offline")] == [("died", False)]
    assert (lives.offline(), read(), kinds()) == ([], [], [])


def beside() -> tuple[int, int]:
    """Two lives of alpha: a new one started while the old one keeps running."""
    return lives.begin("alpha", "m", 1), lives.begin("alpha", "m", 2, beside=[1])


def fates() -> list[tuple[str, bool]]:
    return [*Generation.objects.order_by("pk").values_list("fate", "offline")]


@both
def test_an_old_life_beside_a_new_one_is_not_missed() -> None:
    """For a master that hands over, and for one that began before this was recorded."""
    old, now = beside()
    assert not lives.die(old, 7)
    assert lives.die(now, 7)
    Generation.objects.update(fate="unknown", offline=False)
    assert not lives.die(old, 7)
    assert lives.die(now, 7)


def test_a_node_that_dies_after_a_refused_hand_over_is_missed() -> None:
    old, refused = beside()
    lives.leave(refused)
    assert lives.die(old, 7)
    assert fates() == [("died", True), ("left", False)]
    assert kinds() == [(OFFLINE, "alpha")]


@pytest.mark.parametrize("stopped", [True, False])
def test_a_new_life_that_dies_beside_the_old_one_is_not_missed(stopped: bool) -> None:
    old, killed = beside()
    assert not lives.die(killed, 7)
    assert (lives.offline(), kinds()) == ([], [])
    if stopped:
        lives.leave(old)
        assert (fates(), kinds()) == ([("left", False), ("died", False)], [])
    else:
        assert lives.die(old, 7)
        assert fates() == [("died", True), ("died", False)]


def test_only_lives_on_the_same_machine_go_on_beside_a_new_one() -> None:
    lives.begin("alpha", "other", 1)
    lives.begin("alpha", "m", 3)
    lives.begin("alpha", "m", 2, beside=[1])
    assert fates() == [("replaced", False), ("replaced", False), ("", False)]


@both
def test_of_two_lives_that_die_at_the_same_time_the_last_is_missed() -> None:
    ready = Barrier(2)

    def die(life: int) -> bool:
        try:
            ready.wait()
            return lives.die(life, 7)
        finally:
            connections.close_all()

    for _ in range(10):
        Generation.objects.all().delete()
        Event.objects.all().delete()
        with ThreadPoolExecutor(2) as pool:
            assert sorted(pool.map(die, beside())) == [False, True]
        assert kinds() == [(OFFLINE, "alpha")]


def test_it_is_shown_until_it_comes_back(died: int, as_role: Callable[[str], Client]) -> None:
    (life,) = read()
    told = (life.node, life.generation, life.state, life.condition, life.given_back, life.workers)
    assert told == ("alpha", died, "offline", "offline", 7, 0)
    assert life.since is not None
    assert timezone.now() - life.since < timedelta(minutes=1)
    page = as_role("operator").get("/admin/overview/").content.decode()
    (cells,) = [row for row in rows(page) if row[0] == "alpha"]
    assert cells[1].startswith("offline for 0")
    assert cells[1].endswith("7 requests given back")
    (out,) = program(person("viewer", "eye"), "read").get("nodes").json()["nodes"]
    assert (out["state"], out["given_back"]) == ("offline", 7)
    assert up() == {"alpha": 0}
    assert "it held 7 requests, which other nodes run" in node("list")
    with pytest.raises(CommandError, match="is not running"):
        node("check")
    lives.begin("alpha", "m", 2)
    assert read() == []


def test_a_life_is_shown_instead_of_the_death_before(died: int, join: Callable[..., int]) -> None:
    join("alpha", version="1f00", state="live")
    join("beta", lease=-1)
    assert [(node.node, node.state) for node in read()] == [("alpha", "live"), ("beta", "offline")]
    assert up() == {"alpha": 1, "beta": 0}


def test_an_operator_forgets_it(died: int) -> None:
    with pytest.raises(CommandError, match="no node 'beta' is offline"):
        node("forget", "beta")
    assert "node alpha was removed from the list" in node("forget", "alpha")
    assert read() == []
    action = Action.objects.get()
    assert (action.verb, action.detail) == ("forget node", {"command": True, "node": "alpha"})
    with pytest.raises(CommandError, match="no node 'alpha' is offline"):
        node("forget", "alpha")
    assert lives.begin("alpha", "m", 2)
    assert kinds() == [(OFFLINE, "alpha")], "it was forgotten"


@pytest.mark.parametrize(("role", "may"), [("submitter", False), ("operator", True)])
def test_who_may_forget_it_in_the_admin(
    died: int, as_role: Callable[[str], Client], role: str, may: bool
) -> None:
    living = lives.begin("beta", "m", 1)
    client = as_role(role)
    place = "/admin/crawlservice/generation/"
    assert ("Forget selected offline nodes" in client.get(place).content.decode()) == may
    client.post(place, {"action": "forget", "_selected_action": [died, living]})
    assert [life.node for life in lives.offline()] == ([] if may else ["alpha"])
    written = [(action.verb, action.name) for action in Action.objects.exclude(verb="login")]
    assert written == ([("forget node", role)] if may else [])


@pytest.mark.parametrize(("role", "may"), [("submitter", False), ("operator", True)])
def test_the_page_of_a_dead_node_has_a_button(
    died: int, as_role: Callable[[str], Client], role: str, may: bool
) -> None:
    living = lives.begin("beta", "m", 1)
    client = as_role(role)
    place = "/admin/crawlservice/generation/{}/change/".format
    page = client.get(place(died)).content.decode()
    assert "Node alpha died or is cut off" in page
    assert ("cf-forget" in page) == may
    assert "died or is cut off" not in client.get(place(living)).content.decode()
    forget = f"/admin/crawlservice/generation/{died}/forget/"
    assert client.get(forget).status_code == 405
    assert client.post(forget).status_code == (302 if may else 403)
    assert [life.node for life in lives.offline()] == ([] if may else ["alpha"])
    written = [(action.verb, action.name) for action in Action.objects.exclude(verb="login")]
    assert written == ([("forget node", role)] if may else [])


def test_two_operators_forget_it_at_the_same_time(
    died: int, as_role: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    def slower(node: str) -> None:
        forget(node)
        forget(node)

    forget = lives.forget
    monkeypatch.setattr(lives, "forget", slower)
    chosen = {"action": "forget", "_selected_action": [died]}
    answer = as_role("operator").post("/admin/crawlservice/generation/", chosen, follow=True)
    assert answer.status_code == 200
    assert "no node &#x27;alpha&#x27; is offline" in answer.content.decode()
    assert not Action.objects.filter(verb="forget node").exists()


@pytest.mark.parametrize(
    ("role", "scope", "status"),
    [("viewer", "operate", 403), ("operator", "submit", 403), ("operator", "operate", 204)],
)
def test_who_may_forget_it_through_the_api(died: int, role: str, scope: str, status: int) -> None:
    caller = program(person(role), scope)
    assert caller.delete("nodes/alpha").status_code == status
    assert len(lives.offline()) == (status != 204)
    if status == 204:
        assert Action.objects.get().verb == "forget node"
        assert caller.delete("nodes/alpha").json()["error"]["code"] == "unknown_node"


@both
def test_nodes_that_never_come_back_are_forgotten(
    died: int, settings_with: Callable[..., None]
) -> None:
    assert lives.forget_old() == 0
    Generation.objects.update(
        ended_at=timezone.now() - timedelta(days=8), started_at=timezone.now() - timedelta(days=99)
    )
    lives.begin("beta", "m", 2)
    assert [*ended_lives([])] == [], "it is shown"
    settings_with(KEEP_NODES=0)
    assert lives.forget_old() == 0
    settings_with(KEEP_NODES=7)
    assert lives.forget_old() == 1
    assert lives.offline() == []
    assert [life.pk for life in ended_lives([])] == [died]


def test_a_steward_tells_of_a_node_whose_lease_is_over(
    service: Frontier, join: Callable[..., int]
) -> None:
    renew(service)
    life = join("alpha", version="1f00")
    service.leases.renew(life, 0.001)
    steward = Steward(Settings(), service)
    turn_until(steward, lambda: service.leases.left() == {})
    assert [(node.node, node.state) for node in read()] == [("alpha", "offline")]
    service.store.redis.flushall()
    steward.tick()
    assert [(node.node, node.state) for node in read()] == [("alpha", "offline")]
    assert kinds() == [(OFFLINE, "alpha")]


def test_a_node_that_died_while_redis_was_emptied_is_missed(
    service: Frontier, join: Callable[..., int]
) -> None:
    renew(service)
    join("alpha", version="1f00")
    service.store.redis.flushall()
    renew(service)
    steward = Steward(Settings(lease=1.0), service)
    living = join("beta", version="1f00", lease=600)
    turn_until(steward, lambda: bool(lives.offline()))
    assert [life.node for life in lives.offline()] == ["alpha"]
    assert Generation.objects.get(pk=living).fate == ""


def test_webhooks_are_sent(died: int) -> None:
    values = {"url": "http://127.0.0.1:1/", "sealed_secret": seal(deliveries.new_secret())}
    for name, wanted in (("all", []), ("nodes", [OFFLINE]), ("tasks", ["finished"])):
        Webhook.objects.create(name=name, kinds=wanted, **values)
    Webhook.objects.create(name="shop", spider="shop", **values)
    assert deliveries.create_deliveries()
    assert {one.webhook.name for one in Delivery.objects.all()} == {"all", "nodes"}
    sent = [orjson.loads(letter.body)["kind"] for _, letter in deliveries.OUTBOX.claim([], 9)]
    assert sent == ["node_offline"] * 2
    body = orjson.loads(deliveries.body(Event.objects.get()))
    assert body["task"] is None
    assert body["node"].pop("link") == "/admin/crawlservice/generation/"
    assert body["node"] == {
        "name": "alpha",
        "generation": died,
        "machine": "alpha.example",
        "pid": 4711,
        "given_back": 7,
    }


def test_lists_and_the_stream_tell_of_nodes(died: int, as_role: Callable[[str], Client]) -> None:
    page = as_role("administrator").get("/admin/crawlservice/event/").content.decode()
    assert "node offline" in page
    answer = program(person("viewer", "eye"), "read").get("events", after=0)
    frame = next(iter(answer))
    answer.close()
    assert b"event: node_offline" in frame
    assert b'"task": null, "spider": null, "kind": "node_offline"' in frame
    assert b'"node": "alpha"' in frame
