"""Exports in the admin, the API and the command: added, changed, controlled, and secrets masked."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlservice.accounts import tokens
from crawlservice.admin.exports.form import PARTS
from crawlservice.exports import changes
from crawlservice.exports.definition import Definition
from crawlservice.models import Action, Export, ExportFile, Item, Task
from crawlservice.security.sealing import unseal
from tests.crawlservice.exporting import add, drive, fill, made_task

pytestmark = pytest.mark.usefixtures("service", "place")

LIST = "/admin/crawlservice/export/"
AsRole = Callable[[str], Client]


@pytest.fixture
def place(tmp_path: Path, settings_with: Callable[..., None]) -> None:
    settings_with(EXPORT_DIR=tmp_path / "exports")


def form(**more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "name": "houses",
        "what": "items",
        "begin": "beginning",
        "kind": "files",
    }
    given |= {"files_url": "out", "files_format": "jsonl", "files_max_rows": 10}
    given |= {"files_max_mb": 64, "files_max_minutes": 0, "http_max_rows": 500}
    given |= {"http_format": "jsonl", "kafka_security": "plaintext"}
    return given | more


def errors_of(answer: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = answer.context_data["adminform"].form.errors
    return found


def test_one_is_added_shown_and_changed(as_role: AsRole) -> None:
    client = as_role("administrator")
    assert client.get(f"{LIST}add/").status_code == 200
    answer = client.post(f"{LIST}add/", form(spider="shop", labels="domain=news", chosen="n"))
    assert answer.status_code == 302, errors_of(answer)
    row = Export.objects.get()
    assert (row.spider, row.labels, row.fields) == ("shop", {"domain": "news"}, ["n"])
    assert row.target["max_rows"] == 10
    assert row.user == User.objects.get()
    page = client.get(f"{LIST}{row.pk}/change/")
    assert page.status_code == 200
    assert b'value="out"' in page.content
    answer = client.post(f"{LIST}{row.pk}/change/", form(files_format="csv"))
    assert answer.status_code == 302, errors_of(answer)
    row.refresh_from_db()
    assert (row.target["format"], row.spider, row.changed) == ("csv", "", 1)
    listed = client.get(LIST).content.decode()
    assert "houses" in listed
    assert "running" in listed
    verbs = [
        *Action.objects.filter(verb__endswith="export")
        .order_by("pk")
        .values_list("verb", flat=True)
    ]
    assert verbs == ["add export", "change export"]


def test_a_mistake_is_shown_at_its_field(as_role: AsRole) -> None:
    client = as_role("administrator")
    for changed, field in (
        ({"name": "a b"}, "name"),
        ({"begin": "yesterday"}, "begin"),
        ({"usage": "ai"}, "usage"),
        ({"files_url": "/etc"}, "files_url"),
        ({"files_url": "ftp://host/x"}, "files_url"),
        ({"files_max_rows": 0}, "files_max_rows"),
        ({"kind": "table", "table_url": "sqlite:///x", "table_table": "t"}, "table_url"),
        ({"kind": "table", "table_url": "mysql://h/x", "table_table": "a b"}, "table_table"),
        ({"kind": "kafka", "kafka_servers": "h:1"}, "kafka_topic"),
        ({"kind": "http", "http_url": "https://ann@h/"}, "http_url"),
        ({"chosen": "a\na"}, "chosen"),
    ):
        answer = client.post(f"{LIST}add/", form(**changed))
        assert list(errors_of(answer)) == [field]
        assert not Export.objects.exists()


def test_secrets_are_stored_encrypted_and_never_shown(as_role: AsRole) -> None:
    client = as_role("administrator")
    url = "postgresql://ann:hush-hush@db.example/x"
    table = form(kind="table", table_url=url, table_table="houses")
    assert client.post(f"{LIST}add/", table).status_code == 302
    row = Export.objects.get()
    assert row.target["url"] == "postgresql://ann:********@db.example/x"
    assert "hush-hush" not in row.sealed
    assert "hush-hush" in unseal(row.sealed)
    for page in (LIST, f"{LIST}{row.pk}/change/", f"{LIST}{row.pk}/control/"):
        assert b"hush" not in client.get(page).content
    masked = row.target["url"].replace("/x", "/other")
    client.post(f"{LIST}{row.pk}/change/", table | {"table_url": masked})
    row.refresh_from_db()
    assert changes.target_of(row).url == url.replace("/x", "/other")  # type: ignore[attr-defined]
    for moved in (masked.replace("db.example", "evil.example"), f"{masked}?sslmode=disable"):
        answer = client.post(f"{LIST}{row.pk}/change/", table | {"table_url": moved})
        assert "enter the password again" in errors_of(answer)["table_url"][0]


def test_a_stored_secret_goes_to_no_other_place(as_role: AsRole) -> None:
    client = as_role("administrator")
    s3 = form(files_url="s3://bucket/x", files_key="AKIA", files_secret="hush-hush")
    assert client.post(f"{LIST}add/", s3).status_code == 302
    row = Export.objects.get()
    assert row.target["secret"] == "********"
    kept = s3 | {"files_secret": "", "files_gzip": "on"}
    assert client.post(f"{LIST}{row.pk}/change/", kept).status_code == 302
    row.refresh_from_db()
    assert changes.target_of(row).secret == "hush-hush"  # type: ignore[attr-defined]
    moved = kept | {"files_endpoint": "https://evil.example"}
    answer = client.post(f"{LIST}{row.pk}/change/", moved)
    assert "enter it again" in errors_of(answer)["files_secret"][0]


def test_a_secret_that_was_made_is_shown_once(as_role: AsRole) -> None:
    client = as_role("administrator")
    answer = client.post(f"{LIST}add/", form(kind="http", http_url="https://a.example/"))
    secret = changes.target_of(Export.objects.get()).secret  # type: ignore[attr-defined]
    assert secret.startswith("whsec_")
    assert secret in answer.content.decode()
    assert "no-store" in answer["Cache-Control"]
    page = client.get(f"{LIST}{Export.objects.get().pk}/change/")
    assert secret not in page.content.decode()


def test_it_is_paused_resumed_and_started_again(as_role: AsRole) -> None:
    client = as_role("administrator")
    fill(made_task(), 2)
    row = drive(add({"kind": "files", "url": "out", "max_minutes": 0}))
    place = f"{LIST}{row.pk}/control/"
    assert client.get(place).status_code == 200
    client.post(place, {"_pause": "1"})
    assert Export.objects.get().paused
    client.post(place, {"_resume": "1"})
    assert not Export.objects.get().paused
    assert b"say from where" in client.post(place, {"_restart": "1"}).content
    assert b"is no point" in client.post(place, {"_restart": "1", "begin": "x"}).content
    client.post(place, {"_restart": "1", "begin": "beginning"})
    row = Export.objects.get()
    assert (row.run, row.position, row.rows) == (2, 0, 0)
    for action in ("pause", "resume"):
        client.post(LIST, {"action": action, "_selected_action": [row.pk]})
    verbs = [
        *Action.objects.filter(verb__endswith="export")
        .order_by("pk")
        .values_list("verb", flat=True)
    ]
    assert verbs == [f"{v} export" for v in ("pause", "resume", "restart", "pause", "resume")]
    client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"})
    assert not Export.objects.exists()
    assert Action.objects.latest("pk").verb == "delete export"


def test_who_may_see_and_change_them(as_role: AsRole) -> None:
    row = add({"kind": "files", "url": "out"})
    operator, viewer = as_role("operator"), as_role("viewer")
    assert operator.get(LIST).status_code == 200
    page = operator.get(f"{LIST}{row.pk}/change/")
    assert page.status_code == 200
    assert b"files_url" not in page.content
    assert operator.get(f"{LIST}{row.pk}/control/").status_code == 403
    assert operator.post(f"{LIST}add/", form()).status_code == 403
    assert viewer.get(LIST).status_code == 403


def test_what_a_file_defines_is_not_changed_here(as_role: AsRole) -> None:
    client = as_role("administrator")
    row = add({"kind": "files", "url": "out"})
    Export.objects.update(from_file=True)
    ExportFile.objects.create(node="alpha", path="x", problems=["exports.toml:3: wrong"])
    assert b"files_url" not in client.get(f"{LIST}{row.pk}/change/").content
    assert b"alpha: exports.toml:3: wrong" in client.get(LIST).content
    assert client.get(f"{LIST}{row.pk}/control/").status_code == 200
    assert client.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 403


def test_one_that_its_file_no_longer_names_becomes_ours(as_role: AsRole) -> None:
    client = as_role("administrator")
    row = add({"kind": "files", "url": "out"})
    Export.objects.update(from_file=True, listed=False)
    assert not Export.objects.get().active
    assert client.post(f"{LIST}{row.pk}/change/", form(spider="shop")).status_code == 302
    row = Export.objects.get()
    assert (row.from_file, row.listed, row.active, row.spider) == (False, True, True, "shop")


def test_what_a_page_read_before_the_file_was_applied_undoes_nothing() -> None:
    old = add({"kind": "files", "url": "out"}, spider="shop")
    Export.objects.update(from_file=True, listed=False)
    old.refresh_from_db()
    Export.objects.update(listed=True)  # the leader has read the file meanwhile
    given = {"name": old.name, "target": old.target, "spider": "shop"}
    with pytest.raises(changes.FromFile):
        changes.edit(old, Definition.model_validate(given))
    changes.change(old, Definition.model_validate(given | {"spider": "x"}))
    assert Export.objects.get().active


def test_an_older_process_deletes_a_user_with_exports(orm: str) -> None:
    """It does not know the table."""
    user = User.objects.create_user("ann")
    Export.objects.filter(pk=add({"kind": "files", "url": "out"}).pk).update(user=user)
    with transaction.atomic():
        User.objects.filter(pk=user.pk)._raw_delete("default")
        connection.check_constraints()
    assert Export.objects.get().user_id == user.pk


def test_the_list_counts_no_rows_of_exports(as_role: AsRole) -> None:
    client = as_role("administrator")
    fill(made_task(), 2)
    for number in range(3):
        add({"kind": "files", "url": "out"}, name=f"e{number}")
    with CaptureQueriesContext(connection) as queries:
        page = client.get(LIST).content.decode()
    assert page.count(f"0 / {Item.objects.latest('pk').pk}") == 3
    told = [query["sql"] for query in queries if Item._meta.db_table in query["sql"]]
    assert len(told) == 1


def test_every_part_of_every_target_has_a_field() -> None:
    assert len(PARTS) == 24


# -- the API --------------------------------------------------------------------------------------


@pytest.fixture
def call(service: Frontier) -> Callable[..., Any]:
    """Calls the API as an administrator: ``call("POST", "/exports", {...})``."""
    root = User.objects.create_user("root", is_superuser=True)
    _, secret = tokens.make(root, "test", "operate")
    client = Client(SERVER_NAME="localhost", headers={"Authorization": f"Bearer {secret}"})

    def ask(method: str, path: str, body: Any = None) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        return client.generic(method, f"/api/v1{path}", data, "application/json")

    return ask


def test_the_api_adds_changes_controls_and_deletes(call: Callable[..., Any]) -> None:
    target = {"kind": "files", "url": "s3://bucket/x", "key": "AKIA", "secret": "hush-hush"}
    answer = call("POST", "/exports", {"name": "houses", "target": target, "begin": "now"})
    assert answer.status_code == 201, answer.content
    assert b"hush" not in answer.content
    made = answer.json()
    assert (made["state"], made["left"], made["secret"]) == ("running", 0, None)
    assert call("POST", "/exports", {"name": "houses", "target": target}).status_code == 422
    same = {"name": "houses", "spider": "shop", "target": made["target"]}
    assert call("PUT", "/exports/houses", same).json()["spider"] == "shop"
    assert changes.target_of(Export.objects.get()).secret == "hush-hush"  # type: ignore[attr-defined]
    moved = {**same, "target": {**made["target"], "url": "s3://other/x"}}
    refused = call("PUT", "/exports/houses", moved)
    assert refused.status_code == 422
    assert refused.json()["error"]["field"] == "target.secret"
    assert call("POST", "/exports/houses/pause").json()["state"] == "paused"
    assert call("POST", "/exports/houses/resume").json()["state"] == "running"
    assert call("POST", "/exports/houses/restart", {"begin": "5"}).json()["position"] == 4
    fill(made_task(), 2)
    (listed,) = call("GET", "/exports").json()["exports"]
    assert (listed["run"], listed["position"], listed["left"]) == (2, 4, None)
    one = call("GET", "/exports/houses").json()
    newest = Item.objects.latest("pk").pk
    assert (one["left"], one["newest"], listed["newest"]) == (newest - 4, newest, newest)
    assert call("GET", "/exports/none").status_code == 404
    Export.objects.update(from_file=True)
    assert call("DELETE", "/exports/houses").status_code == 409
    Export.objects.update(from_file=False)
    assert call("DELETE", "/exports/houses").status_code == 204
    assert Action.objects.filter(verb__endswith="export").count() == 6


# -- the command, and kept rows -------------------------------------------------------------------


def test_the_command_lists_them_with_how_far_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("export", "list")
    assert "no exports" in capsys.readouterr().out
    fill(made_task(), 2)
    add({"kind": "files", "url": "out", "max_minutes": 0})
    Export.objects.update(problem="it is full", attempts=2)
    call_command("export", "list")
    told = capsys.readouterr().out
    assert "houses" in told
    assert "failing" in told
    assert f"0 / {Item.objects.latest('pk').pk}" in told
    assert "houses: it is full" in told


@pytest.fixture
def ended() -> Task:
    """A task with six items that ended yesterday."""
    task = made_task()
    fill(task, 2)
    yesterday = timezone.now() - timedelta(days=1)
    Task.objects.update(state="finished", finished_at=yesterday, nf=2, items=6)
    return task


def test_tasks_are_kept_until_they_are_exported(
    ended: Task, as_role: AsRole, capsys: pytest.CaptureFixture[str]
) -> None:
    export = add({"kind": "files", "url": "out", "max_minutes": 0})
    call_command("task", "prune", "--task", str(ended.pk), "--yes")
    assert f"task {ended.pk} is kept: export houses has not" in capsys.readouterr().out
    assert Item.objects.exists()
    page = as_role("administrator").post(
        "/admin/crawlservice/task/",
        {"action": "delete_selected", "_selected_action": [ended.pk]},
    )
    assert b"export houses has not exported all of it" in page.content
    drive(export)
    call_command("task", "prune", "--task", str(ended.pk), "--yes")
    assert not Item.objects.exists()


def test_a_paused_export_keeps_nothing(ended: Task) -> None:
    changes.pause(add({"kind": "files", "url": "out"}))
    call_command("task", "prune", "--task", str(ended.pk), "--yes")
    assert not Item.objects.exists()


# -- the target is tried --------------------------------------------------------------------------


def test_the_target_is_tried_without_leaving_anything(as_role: AsRole, tmp_path: Path) -> None:
    client = as_role("administrator")
    button = "crawlservice_export_save_and_try"
    answer = client.post(f"{LIST}add/", form(), follow=True)
    assert 'name="_try"' in answer.content.decode()
    row = Export.objects.get()
    answer = client.post(f"{LIST}{row.pk}/change/", form(**{button: "1"}), follow=True)
    assert "the target can be reached and written" in answer.content.decode()
    assert [*(tmp_path / "exports/out").iterdir()] == []
    (tmp_path / "exports/out").rmdir()
    (tmp_path / "exports/out").write_text("in the way")
    answer = client.post(f"{LIST}{row.pk}/control/", {"_try": "1"}, follow=True)
    assert "houses: FileExistsError" in answer.content.decode()
    found = [row.detail for row in Action.objects.filter(verb="test export").order_by("pk")]
    assert [bool(detail["problem"]) for detail in found] == [False, True]
    assert (row.paused, row.problem, row.run) == (False, "", 1)
    assert button in client.get(f"{LIST}{row.pk}/change/").content.decode()
    Export.objects.update(from_file=True)
    assert button not in client.get(f"{LIST}{row.pk}/change/").content.decode()
    assert as_role("viewer").post(f"{LIST}{row.pk}/control/", {"_try": "1"}).status_code == 403
    assert Action.objects.filter(verb="test export").count() == 2
