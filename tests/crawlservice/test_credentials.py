"""Credentials of hosts: entered by few, sealed, journaled without the secret, given to workers."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from crawlframe.base.secret import MASK, Secret
from crawlframe.frontier import Frontier
from crawlframe.identity.credentials import Credential
from crawlservice.accounts import roles
from crawlservice.identity import papers
from crawlservice.identity.papers import StoredPapers
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, HostCredential
from crawlservice.security.sealing import SealError, unseal

SECRET = "MARKED-s3cret"
LIST = "/admin/crawlservice/hostcredential/"
FORM = {"host": "Shop.org", "scheme": "basic", "user": "ann", "secret": SECRET, "note": "n"}


def test_a_worker_gets_what_is_stored(service: Frontier) -> None:
    papers.store("*.Shop.org", "digest", "ann", SECRET, http=True, note="the shop")
    papers.store("a.org", "bearer", "", SECRET)
    row = HostCredential.objects.get(host="*.shop.org")
    assert SECRET not in row.sealed_secret
    assert unseal(row.sealed_secret) == SECRET
    assert DjangoLedger().access.identity().credentials == (
        Credential("*.shop.org", "digest", "ann", Secret(SECRET), True),
        Credential("a.org", "bearer", "", Secret(SECRET), False),
    )
    assert SECRET not in repr(DjangoLedger().access.identity())
    assert SECRET not in repr([*Action.objects.values_list("detail")])


def test_changes_are_seen_at_the_next_read(service: Frontier) -> None:
    stored = StoredPapers()
    assert stored.read().credentials == ()
    papers.store("a.org", "basic", "ann", SECRET)
    first = stored.read()
    assert stored.read() is first  # nothing is unsealed again
    papers.store("a.org", "basic", "ann", "another")
    assert stored.read().credentials[0].secret == Secret("another")
    assert papers.remove("A.org")
    assert stored.read().credentials == ()
    assert not papers.remove("a.org")


def test_what_cannot_be_read_is_not_left_out(
    service: Frontier, settings_with: Callable[..., None]
) -> None:
    settings_with(SECRET_KEY="a" * 50)
    papers.store("a.org", "basic", "ann", SECRET)
    settings_with(SECRET_KEY="b" * 50)
    with pytest.raises(SealError, match="CRAWLFRAME_SECRET_KEY"):
        DjangoLedger().access.identity()


def test_the_command_reads_the_secret_from_stdin(
    service: Frontier, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{SECRET}\n"))
    call_command("credential", "set", "shop.org", user="ann", note="n", http=False)
    call_command("credential", "list")
    out = capsys.readouterr().out
    assert "shop.org" in out
    assert SECRET not in out
    assert unseal(HostCredential.objects.get().sealed_secret) == SECRET
    with pytest.raises(CommandError, match="standard input"):
        call_command("credential", "set", "shop.org", user="ann")
    monkeypatch.setattr("sys.stdin", io.StringIO("x\n"))
    with pytest.raises(CommandError, match="needs a user name"):
        call_command("credential", "set", "shop.org")
    call_command("credential", "delete", "shop.org")
    with pytest.raises(CommandError, match="no credential"):
        call_command("credential", "delete", "shop.org")
    verbs = [verb for (verb,) in Action.objects.order_by("pk").values_list("verb")]
    assert verbs == ["add credential", "delete credential"]


@pytest.mark.parametrize("role", ["superuser", "viewer"])
def test_superusers_and_keepers_edit_them_and_nobody_sees_the_secret(
    as_role: Callable[[str], Client], role: str
) -> None:
    client = as_role(role)
    if role != "superuser":
        roles.make_keeper(User.objects.get(username=role), True)
    assert client.post(f"{LIST}add/", FORM).status_code == 302
    row = HostCredential.objects.get()
    assert (row.host, row.by and row.by.username) == ("shop.org", role)
    assert unseal(row.sealed_secret) == SECRET
    place = f"{LIST}{row.pk}/change/"
    pages = [client.get(one).content.decode() for one in (place, LIST)]
    assert 'type="password"' in pages[0]
    kept = {**FORM, "host": "shop.org", "secret": "", "note": "changed"}
    assert client.post(place, kept).status_code == 302
    row.refresh_from_db()
    assert (row.note, unseal(row.sealed_secret)) == ("changed", SECRET)
    assert client.post(place, {**kept, "secret": "new"}).status_code == 302
    row.refresh_from_db()
    assert unseal(row.sealed_secret) == "new"
    pages.append(client.post(place, {**FORM, "host": "no host/"}).content.decode())
    assert client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    told = repr([*Action.objects.values_list("verb", "detail")])
    assert "add_hostcredential" in told
    assert "delete_hostcredential" in told
    assert all(SECRET not in text for text in [*pages, told])
    assert all(row.sealed_secret not in text for text in [*pages, told])


@pytest.mark.parametrize(
    "change", [{"host": "evil.org"}, {"http": "on"}, {"scheme": "digest"}, {"secret": MASK}]
)
def test_a_stored_secret_is_not_sent_elsewhere(
    as_role: Callable[[str], Client], change: dict[str, Any]
) -> None:
    """Whoever may edit it does not get to know it by naming a host of their own."""
    client = as_role("superuser")
    client.post(f"{LIST}add/", FORM)
    row = HostCredential.objects.get()
    answer = client.post(
        f"{LIST}{row.pk}/change/", {**FORM, "host": "shop.org", "secret": "", **change}
    )
    assert answer.status_code == 200
    row.refresh_from_db()
    assert (row.host, row.scheme, row.http) == ("shop.org", "basic", False)


def test_only_superusers_make_keepers(as_role: Callable[[str], Client]) -> None:
    user = User.objects.create_user("bob")
    place = f"/admin/auth/user/{user.pk}/change/"
    form = {"username": "bob", "role": "viewer", "is_active": "on", "keeps": "on"}
    assert "keeps" not in as_role("administrator").get(place).content.decode()
    administrator = Client(SERVER_NAME="localhost")
    administrator.force_login(User.objects.get(username="administrator"))
    administrator.post(place, form)
    assert not roles.is_keeper(User.objects.get(pk=user.pk))
    as_role("superuser").post(place, form)
    keeper = User.objects.get(pk=user.pk)
    assert (roles.is_keeper(keeper), roles.role_of(keeper), keeper.is_staff) == (
        True,
        "viewer",
        True,
    )
    assert not roles.may_change(User.objects.get(username="administrator"), keeper)
    del form["keeps"]
    boss = Client(SERVER_NAME="localhost")
    boss.force_login(User.objects.get(username="superuser"))
    boss.post(place, form)
    assert not roles.is_keeper(User.objects.get(pk=user.pk))
