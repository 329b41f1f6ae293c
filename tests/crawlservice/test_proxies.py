"""The pool of proxies: entered, sealed, checked, published, and given to workers."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client

from crawlframe.base.secret import MASK, Secret
from crawlframe.conf import Settings
from crawlframe.frontier import Frontier
from crawlframe.frontier.proxies import ProxyUse
from crawlframe.proxies.place import pair_of
from crawlservice.connections import clock
from crawlservice.ledger.store import DjangoLedger
from crawlservice.management.commands.store import reseal_all
from crawlservice.models import Action, Proxy, ProxySource
from crawlservice.proxies import check, sources
from crawlservice.proxies.chores import ProxyChores
from crawlservice.proxies.entry import BadProxy, read_entry, read_lines, store
from crawlservice.proxies.pool import pooled, publish
from crawlservice.security.sealing import seal, unseal
from crawlservice.steward.steward import Steward
from tests.crawlservice.programs import person, program
from tests.proxy_server import ProxyServer, running

SECRET = "MARKED:s3 cret"
USER = "MARKED-account"
LINE = f"http://{USER}:MARKED%3As3%20cret@Proxy.Example:3128"
URL = "http://proxy.example:3128"
LIST = "/admin/crawlservice/proxy/"
SETTINGS = Settings()


def run(*arguments: str, **options: Any) -> str:
    out = StringIO()
    call_command("proxy", *arguments, stdout=out, stderr=out, **options)
    return out.getvalue()


def add(*lines: str, working: bool = True, **fields: Any) -> list[Proxy]:
    entries, problems = read_lines(lines, **fields)
    assert problems == []
    store(entries)
    if working:
        Proxy.objects.update(state=Proxy.State.WORKING)
    return [*Proxy.objects.order_by("pk")]


# -- entry -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url", "user", "password"),
    [
        (LINE, URL, USER, SECRET),
        ("proxy.example:3128", URL, "", ""),
        ("proxy.example:3128:ann:secret", URL, "ann", "secret"),
        ("socks5://u:p@1.2.3.4:1080", "socks5://1.2.3.4:1080", "u", "p"),
        ("https://[::1]:443", "https://[::1]:443", "", ""),
    ],
)
def test_spellings(text: str, url: str, user: str, password: str) -> None:
    entry = read_entry(text)
    assert (entry.url, entry.user, entry.password) == (url, user, password)


@pytest.mark.parametrize(
    "text",
    [
        *("ftp://a:1", "a", "a:1:MARKED:a:b", "http://a:99999", "http://u:MARKED@a", "x y:1"),
        # Credentials that are no UTF-8: as an escape, in a file that was read, and in JSON.
        *("http://MARKED%FC:p@a:1", "a:1:u:MARKED\ufffd", "a:1:u:MARKED\ud800", "http://u:%00@a:1"),
    ],
)
def test_what_is_no_proxy_is_named_without_its_credentials(text: str) -> None:
    with pytest.raises(BadProxy) as caught:
        read_entry(text)
    assert "MARKED" not in str(caught.value)


def test_lists_have_comments_and_name_wrong_lines() -> None:
    entries, problems = read_lines(["# mine", "", "a.example:1  # old", "nothing", "a.example:1"])
    assert [entry.url for entry in entries] == ["http://a.example:1"]
    assert len(problems) == 1
    assert problems[0].startswith("line 4: ")


# -- database --------------------------------------------------------------------------------------


def test_credentials_are_sealed_and_reach_workers(service: Frontier) -> None:
    (row,) = add(LINE, tags=["eu"], tier=2, country="de")
    shown = repr([*Proxy.objects.values()])
    assert "MARKED" not in shown
    (found,) = DjangoLedger().access.proxies()
    assert (found.tier, found.country, found.tags) == (2, "DE", ("eu",))
    assert found.proxy.url == URL
    assert (found.proxy.username, found.proxy.password) == (USER, Secret(SECRET))
    assert "MARKED" not in repr(found)
    assert found.proxy.id == row.pk


def test_two_users_of_one_server_are_two_proxies(service: Frontier) -> None:
    add("http://a:1@h.example:1", "http://b:1@h.example:1")
    add("http://a:2@h.example:1")
    assert Proxy.objects.count() == 2
    assert {one.proxy.password for one in DjangoLedger().access.proxies()} == {
        Secret("1"),
        Secret("2"),
    }


def test_one_with_another_password_is_checked_before_it_is_used(service: Frontier) -> None:
    store(read_lines(["http://me:old@a.example:1", "b.example:1"])[0])
    Proxy.objects.update(state=Proxy.State.WORKING, check_at=clock.now())
    store(read_lines(["http://me:new@a.example:1", "b.example:1"])[0])
    changed, same = Proxy.objects.order_by("url")
    assert (changed.state, changed.check_at) == (Proxy.State.NEW, None)
    assert same.state == Proxy.State.WORKING


def test_a_failed_one_that_is_imported_again_is_checked_at_once(service: Frontier) -> None:
    store(read_lines(["a.example:1"])[0])
    Proxy.objects.update(state=Proxy.State.FAILED, check_at=clock.now() + timedelta(hours=1))
    store(read_lines(["a.example:1"])[0])
    assert Proxy.objects.get().check_at is None


def test_a_list_leaves_what_operators_have_imported(service: Frontier) -> None:
    store(read_lines(["a.example:1"], tags=["mine"])[0])
    source = ProxySource.objects.create(name="l", sealed_place=seal("http://l.example/"))
    store(read_lines(["a.example:1", "b.example:1"], tags=["theirs"])[0], source)
    assert [*Proxy.objects.order_by("url").values_list("tags", flat=True)] == ["mine", "theirs"]


def test_only_those_that_work_are_used(service: Frontier) -> None:
    rows = add("a.example:1", "b.example:1", "c.example:1", "d.example:1")
    Proxy.objects.filter(pk=rows[1].pk).update(enabled=False)
    Proxy.objects.filter(pk=rows[2].pk).update(state=Proxy.State.FAILED)
    Proxy.objects.filter(pk=rows[3].pk).update(state=Proxy.State.NEW)
    assert [one.id for one in pooled()] == [rows[0].pk]


def test_proxies_are_resealed(service: Frontier, settings_with: Callable[..., None]) -> None:
    settings_with(SECRET_KEY="a" * 50)
    (row,) = add(LINE)
    ProxySource.objects.create(name="bought", sealed_place=seal("https://a.example/?key=1"))
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=["a" * 50])
    with transaction.atomic():
        done, failed = reseal_all()
    assert (done["proxies"], done["proxy lists"], failed) == (1, 1, [])
    settings_with(SECRET_KEY="b" * 50, SECRET_KEY_FALLBACKS=[])
    row.refresh_from_db()
    assert unseal(row.sealed_login) == f"{USER}:{SECRET}"


# -- checks and publication ------------------------------------------------------------------------


def test_a_project_without_proxies_writes_nothing(service: Frontier) -> None:
    publish(service)
    assert service.proxies.versions() == [""]


def test_changes_are_published_and_so_is_what_was_lost(service: Frontier) -> None:
    (row,) = add("a.example:1")
    publish(service)
    (first,) = service.proxies.versions()
    assert first
    publish(service)
    assert service.proxies.versions() == [first]
    service.store.redis.delete(service.store.keys[0]("POOL_VERSION"))
    publish(service)
    assert service.proxies.versions() == [first]
    row.delete()
    publish(service)
    assert service.proxies.versions() != [first]
    assert service.store.redis.hlen(service.store.keys[0]("POOL")) == 0


def test_one_that_is_out_is_checked_after_growing_pauses(service: Frontier) -> None:
    (row,) = add("127.0.0.1:1")
    publish(service)
    service.store.redis.sadd(service.store.keys[0]("OUT"), row.pk)
    ProxyChores(Steward(SETTINGS, service).context).tick()
    row.refresh_from_db()
    assert row.state == Proxy.State.FAILED
    pauses = []
    for _ in range(3):
        check.settle(row, check.Checked("refused", 1))
        assert row.check_at is not None
        pauses.append(round((row.check_at - clock.now()) / timedelta(seconds=1)))
    assert pauses == [30, 60, 120]
    life = row.life
    check.settle(row, check.Checked("", 0.25))
    assert (row.state, row.life, row.latency_ms) == (Proxy.State.WORKING, life + 1, 250)
    check.take_out(row, ProxyUse())  # it fails again at once
    assert row.check_at is not None
    assert row.check_at - clock.now() > timedelta(seconds=100)
    publish(service)
    assert service.proxies.out() == set()


def test_a_failed_check_does_not_take_one_out_that_works(service: Frontier) -> None:
    (row,) = add("a.example:1")
    check.settle(row, check.Checked("slow", 1))
    assert row.state == Proxy.State.WORKING
    assert row.problem == "slow"


def test_checks_reach_real_proxies(service: Frontier) -> None:
    alive = ProxyServer(login=f"{USER}:{SECRET}")
    with running(alive):
        add(alive.line.replace(SECRET, "MARKED%3As3%20cret"), "127.0.0.1:1", working=False)
        Proxy.objects.create(url="nowhere")
        found = check.check_all(SETTINGS, check.due())
    assert sorted(bool(one.problem) for one in found.values()) == [False, True, True]
    assert {row.url: row.state for row in Proxy.objects.all()} == {
        alive.url: Proxy.State.WORKING,
        "http://127.0.0.1:1": Proxy.State.FAILED,
        "nowhere": Proxy.State.FAILED,
    }
    assert "MARKED" not in repr([*Proxy.objects.values_list("problem")])


# -- lists -----------------------------------------------------------------------------------------


def test_a_list_makes_its_proxies_those_that_it_has(service: Frontier, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{LINE}\nb.example:1\n")
    source = ProxySource.objects.create(name="l", sealed_place=seal(str(path)), tags="eu", tier=1)
    add("own.example:1")
    assert sources.any_due()
    sources.read_due(SETTINGS)
    assert not sources.any_due()
    source.refresh_from_db()
    assert (source.found, source.problem) == (2, "")
    kept = Proxy.objects.get(url="http://b.example:1")
    path.write_text("b.example:1\nc.example:1\n")
    sources.refresh(source, SETTINGS)
    assert {row.url for row in Proxy.objects.all()} == {
        "http://own.example:1", "http://b.example:1", "http://c.example:1",
    }  # fmt: skip
    assert Proxy.objects.get(url="http://b.example:1").pk == kept.pk
    assert {row.tags for row in source.proxies.all()} == {"eu"}
    path.write_text("")
    sources.refresh(source, SETTINGS)
    assert source.proxies.count() == 2  # an empty list is taken for a mistake
    assert "empty" in source.problem
    path.unlink()
    sources.refresh(source, SETTINGS)
    assert source.problem


@pytest.mark.parametrize("place", ["relative.txt", "ftp://a.example/x", "http://"])
def test_places_that_no_list_has(place: str) -> None:
    with pytest.raises(sources.BadSource):
        sources.check_place(place)


# -- command ---------------------------------------------------------------------------------------


def test_the_command(service: Frontier, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{LINE}\nsocks5://127.0.0.1:1\n")
    out = run("import", str(path), "--tag", "eu", "--tier", "1", "--max-concurrency", "4")
    assert out.startswith("2 new, 0 changed, 0 unchanged")
    path.write_text(f"{LINE}\n{LINE[:-1]}9\nsocks5://127.0.0.1:1\n")
    same = ("--tag", "eu", "--tier", "1", "--max-concurrency", "4")
    assert run("import", str(path), *same).startswith("1 new, 0 changed, 2 unchanged")
    path.write_text(f"{LINE.replace('cret', 'cret2')}\nsocks5://127.0.0.1:1\n")
    assert run("import", str(path), *same).startswith("0 new, 1 changed, 1 unchanged")
    path.write_text(f"{LINE}\nsocks5://127.0.0.1:1\n")
    assert run("import", str(path)).startswith("0 new, 2 changed, 0 unchanged")
    assert run("delete", URL.replace("3128", "3129")).startswith("1 deleted")
    shown = run("list")
    assert URL in shown
    assert "MARKED" not in shown + out
    checked = run("check", "socks5://127.0.0.1:1")
    assert "0 of 1 accept connections; set CRAWLFRAME_PROXY_ECHO" in checked
    row = Proxy.objects.get(url=URL)
    pair = service.store.keys[0]("HOST", pair_of("shop.example", row.pk))
    until = round(1000 * (clock.now().timestamp() + 60))
    service.store.redis.hset(pair, mapping={"a": 2, "r": until, "why": "blocked"})
    at_host = run("list", "--host", "shop.example")
    assert "blocked" in at_host
    assert URL in at_host
    assert "socks5" not in at_host
    path.write_text("nothing\n")
    with pytest.raises(CommandError, match="nothing was imported: 1 line is wrong"):
        run("import", str(path))
    with pytest.raises(CommandError, match="tier is 999"):
        run("import", str(path), "--tier", "999")
    with pytest.raises(CommandError, match="cannot be read"):
        run("import", str(tmp_path / "missing"))
    assert run("delete", URL).startswith("1 deleted")
    with pytest.raises(CommandError, match="no such proxy"):
        run("delete", URL)
    with pytest.raises(CommandError, match="no such proxy"):
        run("check", URL)
    told = repr([*Action.objects.values_list("verb", "detail")])
    assert "import proxies" in told
    assert "MARKED" not in told


def test_a_check_says_what_it_could_not_check(
    service: Frontier, settings_with: Callable[..., None]
) -> None:
    with running(proxy := ProxyServer("http", login="me:secret")):
        add(proxy.url)
        out = run("check")
        assert f"{proxy.url}: connected only" in out
        assert "1 of 1 accept connections" in out
        echo = "http://127.0.0.1:1/"
        allowed = (ip_network("127.0.0.0/8"),)
        with_echo = replace(settings.CRAWLFRAME, proxy_echo=echo, allow_private=allowed)
        settings_with(CRAWLFRAME=with_echo)
        out = run("check")
    assert "wrong login" in out
    assert "(407)" in out
    assert "0 of 1 work" in out


def test_a_login_that_is_refused_in_use_is_named(
    service: Frontier, as_role: Callable[[str], Client]
) -> None:
    (row, other) = add(LINE, "b.example:1")
    publish(service)
    key = service.store.keys[0]("PROXY", row.pk)
    service.store.redis.hset(key, mapping={"f": 1, "lo": 1})
    admin = as_role("administrator")
    for page in (LIST, f"{LIST}{row.pk}/change/"):
        assert "wrong login: it refused" in admin.get(page).content.decode()
    assert "wrong login" not in admin.get(f"{LIST}{other.pk}/change/").content.decode()
    assert run("list").count("wrong login") == 1
    listed = program(person("administrator", name="api")).get("proxies").json()["proxies"]
    assert ["wrong login" in one["problem"] for one in listed] == [True, False]
    service.store.redis.sadd(service.store.keys[0]("OUT"), row.pk)
    ProxyChores(Steward(SETTINGS, service).context).tick()
    row.refresh_from_db()
    assert row.state == Proxy.State.FAILED
    assert row.problem.startswith("three requests in a row could not use it: wrong login")
    assert run("list").count("wrong login") == 1


# -- admin -----------------------------------------------------------------------------------------

FORM = {
    "url": "http://Proxy.Example:3128", "login": f"{USER}:{SECRET}", "tier": 1, "tags": "fast eu",
    "country": "de", "max_concurrency": 5, "enabled": "on",
}  # fmt: skip


def test_the_admin_enters_them_and_never_shows_the_login(as_role: Callable[[str], Client]) -> None:
    client = as_role("administrator")
    assert client.post(f"{LIST}add/", FORM).status_code == 302
    row = Proxy.objects.get()
    assert (row.url, row.tags, row.country, row.state) == (URL, "eu fast", "DE", "new")
    assert unseal(row.sealed_login) == f"{USER}:{SECRET}"
    place = f"{LIST}{row.pk}/change/"
    pages = [client.get(one).content.decode() for one in (place, LIST)]
    assert URL in pages[1]
    Proxy.objects.update(state=Proxy.State.WORKING)
    assert client.post(place, {**FORM, "login": "", "url": URL, "tier": 2}).status_code == 302
    row.refresh_from_db()
    assert (row.tier, row.state) == (2, Proxy.State.WORKING)
    assert unseal(row.sealed_login) == f"{USER}:{SECRET}"
    # Not sent to a server that whoever may edit it has entered.
    moved = client.post(place, {**FORM, "login": "", "url": "http://evil.example:1"})
    assert moved.status_code == 200
    assert client.post(place, {**FORM, "url": URL, "login": MASK}).status_code == 200
    assert client.post(f"{LIST}add/", FORM).status_code == 200  # it is there already
    pages.append(moved.content.decode())
    told = repr([*Action.objects.values_list("verb", "detail")])
    assert all("MARKED" not in text for text in [*pages, told])
    chosen = {"action": "check_again", "_selected_action": [row.pk]}
    assert client.post(LIST, chosen).status_code == 302
    row.refresh_from_db()
    assert row.state == Proxy.State.NEW


def test_the_admin_enters_lists(as_role: Callable[[str], Client]) -> None:
    client = as_role("administrator")
    place = "/admin/crawlservice/proxysource/"
    form = {
        "name": "bought", "place": "https://a.example/list?key=MARKED", "every": 60, "tier": 0,
        "tags": "", "country": "", "max_concurrency": 0, "enabled": "on",
    }  # fmt: skip
    assert client.post(f"{place}add/", {**form, "place": "rel"}).status_code == 200
    assert client.post(f"{place}add/", form).status_code == 302
    row = ProxySource.objects.get()
    assert unseal(row.sealed_place) == form["place"]
    source = ProxySource.objects.create(name="own", spider="shop", every=0, next_at=clock.now())
    ProxySource.objects.filter(pk=row.pk).update(next_at=clock.now() + timedelta(hours=1), found=7)
    store(read_lines(["in.example:1"])[0], row)
    store(read_lines(["out.example:1"])[0])
    shown = client.get(place).content.decode()
    link = f"{LIST}?source__id__exact={row.pk}"
    assert f'href="{link}">7</a>' in shown
    linked = client.get(link).content.decode()
    assert "in.example" in linked
    assert "out.example" not in linked
    chosen = {"action": "read_now", "_selected_action": [row.pk, source.pk]}
    said = client.post(place, chosen, follow=True).content.decode()
    assert "1 list is read now." in said
    assert "1 list is not read: its spider has a schedule of its own." in said
    assert [*ProxySource.objects.filter(next_at=None)] == [row]
    # The path to the page: a name keeps its letters.
    assert re.search(r">\s*bought\s*</a", client.get(f"{place}{row.pk}/change/").content.decode())
    for page in (place, f"{place}{row.pk}/change/"):
        assert "MARKED" not in client.get(page).content.decode()


# -- API -------------------------------------------------------------------------------------------


def test_the_api(published: Frontier) -> None:
    caller = program(person("administrator"))
    answer = caller.post("proxies", {"proxies": [LINE, "b.example:1"], "tags": ["eu"]})
    assert (answer.status_code, answer.json()) == (201, {"new": 2, "known": 0, "changed": 0})
    listed = caller.get("proxies")
    assert "MARKED" not in listed.content.decode()
    first, second = listed.json()["proxies"]
    assert (first["url"], first["login"], first["tags"]) == (URL, True, ["eu"])
    assert (second["login"], second["state"]) == (False, "new")
    wrong = caller.post("proxies", {"proxies": ["c.example:1", "http://x:MARKED@y"]})
    assert wrong.status_code == 422
    assert "MARKED" not in wrong.content.decode()
    assert Proxy.objects.count() == 2
    place = f"proxies/{first['id']}"
    changed = caller.patch(place, {"enabled": False, "tier": 3}).json()
    assert (changed["enabled"], changed["tier"], changed["tags"]) == (False, 3, ["eu"])
    assert caller.patch(place, {"tier": -1}).status_code == 422
    assert caller.post(f"{place}/check", {}).json()["state"] == "new"
    assert caller.delete(place).status_code == 204
    assert caller.delete(place).status_code == 404
    assert program(person("viewer")).get("proxies").status_code == 403
    assert "MARKED" not in repr([*Action.objects.values_list("detail")])
