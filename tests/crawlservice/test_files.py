"""Saved files in the service: rows with their pages, pruning beside running crawls, downloads."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from crawlframe.files.saved_file import SavedFile
from crawlframe.frontier import Frontier
from crawlframe.request.request import make_rid
from crawlframe.run.ledger import FilesGone, LedgerAway
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.files import pruning
from crawlservice.files.download import name_of, store
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Action, Item, Page, PageFile, StoredFile, Task
from crawlservice.tasks.removal import remove
from tests.crawlservice.programs import person, program
from tests.crawlservice.web import log_in_as

pytestmark = pytest.mark.databases("sqlite", "postgres")

URL = "http://files.example/a%20b.png?x=1"
NOW = timedelta()


@pytest.fixture(autouse=True)
def folder(
    published: Frontier, settings_with: Callable[..., None], tmp_path: Path
) -> Iterator[Path]:
    """The directory of the file store."""
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, files=str(tmp_path / "files")))
    store.cache_clear()
    yield tmp_path / "files"
    store.cache_clear()


@pytest.fixture
def task() -> Task:
    ended = {"state": "finished", "finished_at": timezone.now()}
    return Task.objects.create(spider="shop", seeds=b"", na=1, nf=1, items=1, **ended)


def put(body: bytes, url: str = URL) -> SavedFile:
    """A file that a worker has just put into the store."""
    store().spool.mkdir(parents=True, exist_ok=True)
    local = store().spool / "x.part"
    local.write_bytes(body)
    sha256 = hashlib.sha256(body).hexdigest()
    return SavedFile(url, store().put(local, sha256), sha256, len(body), "image/png")


def saving(task: Task, name: bytes, *files: SavedFile) -> Outcome:
    outcome = Outcome(make_rid(task.pk, name), task.pk, "h", b"record", 0, 0, url=URL)
    outcome.results.items, outcome.results.files = [b'{"n": 1}'], [*files]
    return outcome


def commit(*outcomes: Outcome) -> None:
    DjangoLedger().commit([*outcomes])


def age(file: SavedFile, days: float = 30) -> None:
    """Makes it as if the file had been saved that long ago."""
    old = timezone.now() - timedelta(days=days)
    StoredFile.objects.filter(pk=file.sha256).update(saved_at=old)
    if (path := Path(store().address) / file.path).exists():
        os.utime(path, (old.timestamp(), old.timestamp()))


def test_files_are_recorded_with_their_pages(task: Task) -> None:
    one, two = put(b"one"), put(b"two")
    commit(saving(task, b"a", one, two), saving(task, b"b", one))
    assert StoredFile.objects.count() == 2
    row = StoredFile.objects.get(pk=one.sha256)
    assert (row.size, row.media_type, row.task) == (3, "image/png", task.pk)
    assert row.page in {UUID(bytes=make_rid(task.pk, name)) for name in (b"a", b"b")}
    assert PageFile.objects.filter(file=row).count() == 2
    commit(saving(task, b"a", one, two))  # again: nothing changes
    assert PageFile.objects.count() == 3


def test_only_the_run_that_counts_names_its_files(task: Task) -> None:
    commit(saving(task, b"a", put(b"first")))
    commit(saving(task, b"a", put(b"second")))
    assert PageFile.objects.get().file_id == hashlib.sha256(b"first").hexdigest()


def test_an_error_names_no_file(task: Task) -> None:
    commit(saving(task, b"a", put(b"one")).end(Verdict.ERROR, "callback"))
    assert not PageFile.objects.exists()


def test_no_row_names_a_file_that_is_gone(task: Task) -> None:
    one, two = put(b"one"), put(b"two")
    store().delete(two.sha256)
    with pytest.raises(FilesGone, match="was pruned before"):
        commit(saving(task, b"a", one), saving(task, b"b", two))
    assert [model.objects.count() for model in (Page, StoredFile, Item)] == [0, 0, 0]


def test_pages_wait_for_a_store_that_is_away(task: Task, folder: Path) -> None:
    one = put(b"one")
    place = folder / one.path
    place.unlink()
    os.removedirs(place.parent)
    folder.mkdir(exist_ok=True)
    (folder / "sha256").write_bytes(b"not a directory")
    with pytest.raises(LedgerAway, match="the file store"):
        commit(saving(task, b"a", one))
    assert not Page.objects.exists()


def test_files_of_removed_tasks_are_pruned_unless_others_have_them(task: Task) -> None:
    other = Task.objects.create(spider="shop", seeds=b"")
    one, two = put(b"one"), put(b"two")
    commit(saving(task, b"a", one, two), saving(other, b"a", one))
    for file in (one, two):
        age(file)
    assert pruning.prune_unused(NOW).files == 0
    assert [*remove(Task.objects.filter(pk=task.pk))]
    assert PageFile.objects.count() == 1
    assert pruning.prune_old() is False
    assert (store().size(one.sha256), store().size(two.sha256)) == (3, None)
    assert StoredFile.objects.get().pk == one.sha256


def test_the_setting_keeps_files(task: Task, settings_with: Callable[..., None]) -> None:
    one = put(b"one")
    commit(saving(task, b"a", one))
    PageFile.objects.all().delete()
    pruning.prune_old()  # it was just saved
    assert store().size(one.sha256) == 3
    age(one)
    settings_with(KEEP_FILES=0)
    pruning.prune_old()
    assert store().size(one.sha256) == 3
    settings_with(KEEP_FILES=29)
    pruning.prune_old()
    assert store().size(one.sha256) is None


def test_files_that_a_killed_worker_has_left_are_found(task: Task) -> None:
    known, left, new = put(b"known"), put(b"left"), put(b"new")
    commit(saving(task, b"a", known))
    for file in (known, left):
        age(file)
    found = [*pruning.unknown(timedelta(days=1))]
    assert [file.sha256 for file in found] == [left.sha256]
    assert pruning.prune_unknown(found) == (1, 4)
    assert store().size(left.sha256) is None
    assert store().size(known.sha256) == store().size(new.sha256) + 2  # type: ignore[operator]
    assert StoredFile.objects.get().pk == known.sha256


def test_a_file_that_a_page_has_named_meanwhile_is_kept(task: Task) -> None:
    one = put(b"one")
    found = [*pruning.unknown(NOW)]
    commit(saving(task, b"a", one))
    assert pruning.prune_unknown(found).files == 0
    assert store().size(one.sha256) == 3


def test_a_page_and_pruning_at_the_same_moment(task: Task) -> None:
    """Whoever has the row first wins; the page never names a file that is gone."""
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one writer at a time")
    one = put(b"one")
    commit(saving(task, b"a", one))
    PageFile.objects.all().delete()
    age(one)
    failed: list[BaseException] = []

    def page() -> None:
        try:
            commit(saving(task, b"b", one))
        except FilesGone as error:
            failed.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=page)
    with transaction.atomic():
        assert pruning.prune_unused(NOW).files == 1
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()  # it waits for the row
    thread.join(20)
    assert failed
    assert not Page.objects.filter(rid=UUID(bytes=make_rid(task.pk, b"b"))).exists()


def run(*words: str) -> str:
    out = StringIO()
    call_command("store", f"{words[0]}-files", *words[1:], stdout=out)
    return out.getvalue()


def test_the_command_checks(task: Task, folder: Path) -> None:
    one, two = put(b"one"), put(b"two")
    commit(saving(task, b"a", one, two))
    put(b"of nobody")
    told = run("check", "--contents")
    assert "2 files, 6 bytes" in told
    assert "besides, 1 files, 9 bytes that the database does not know" in told
    (folder / one.path).write_bytes(b"ONE")
    run("check")
    with pytest.raises(CommandError, match="1 files are missing or damaged"):
        run("check", "--contents")
    (folder / one.path).unlink()
    (folder / two.path).write_bytes(b"tw")
    out = StringIO()
    with pytest.raises(CommandError, match="2 files"):
        call_command("store", "check-files", stdout=out)
    assert f"{one.sha256}: missing; page" in out.getvalue()
    assert f"{two.sha256}: has 2 bytes instead of 3" in out.getvalue()


def test_the_command_prunes(task: Task) -> None:
    kept, unused, left = put(b"kept"), put(b"unused"), put(b"left")
    commit(saving(task, b"a", kept, unused))
    PageFile.objects.filter(file=unused.sha256).delete()
    gone = PageFile.objects.create(task_id=9999, rid=UUID(int=1), file_id=unused.sha256, url="u")
    assert "deleted: 0 files" in run("prune")
    gone.delete()
    PageFile.objects.create(task_id=9999, rid=UUID(int=1), file_id=unused.sha256, url="u")
    for file in (kept, unused, left):
        age(file)
    part = store().spool / "killed.part"
    part.write_bytes(b"half")
    os.utime(part, (1, 1))
    assert "1 files" in run("prune", "--dry-run")  # the row of the task that is gone is still there
    told = run("prune")
    assert "deleted: 2 files, 10 bytes" in told
    assert "and 1 that were left in the spool" in told
    assert [file.sha256 for file in store().files()] == [kept.sha256]
    assert not part.exists()
    assert Action.objects.get(verb="prune_files").detail == {
        "command": True, "files": 2, "bytes": 10,
    }  # fmt: skip
    with pytest.raises(CommandError, match="must be a number of hours"):
        run("prune", "--older-than", "soon")


def test_the_admin_shows_files_and_hands_them_out(task: Task) -> None:
    one = put(b"<script>one")
    commit(saving(task, b"a", one))
    page = Page.objects.get()
    viewer = log_in_as("viewer")
    place = f"/admin/crawlservice/page/{page.pk}/files/{one.sha256}/"
    for shown in (f"page/{page.pk}", f"item/{Item.objects.get().pk}"):
        assert place in viewer.get(f"/admin/crawlservice/{shown}/change/").content.decode()
    answer: Any = viewer.get(place)
    assert b"".join(answer.streaming_content) == b"<script>one"
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="a_b.png"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].startswith("sandbox")
    assert answer.headers["Content-Length"] == "11"
    assert viewer.get(place.replace(one.sha256, "0" * 64)).status_code == 404
    assert Client(SERVER_NAME="localhost").get(place).status_code == 302
    store().delete(one.sha256)
    assert "was deleted from" in viewer.get(place, follow=True).content.decode()


def test_the_api_lists_files_and_hands_them_out(task: Task) -> None:
    other = Task.objects.create(spider="shop", seeds=b"")
    one = put(b"one")
    commit(saving(task, b"a", one), saving(other, b"b", put(b"other")))
    api = program(person("viewer"), "read")
    rid = UUID(bytes=make_rid(task.pk, b"a"))
    (row,) = api.get(f"tasks/{task.pk}/files").json()["files"]
    assert row | {"id": 0} == {
        "id": 0, "rid": str(rid), "url": URL, "path": one.path, "sha256": one.sha256, "size": 3,
        "media_type": "image/png",
        "kind": "",
    }  # fmt: skip
    assert api.get(f"tasks/{task.pk}/files", rid=str(rid)).json()["files"] == [row]
    assert api.get(f"tasks/{task.pk}/files", rid=str(UUID(int=1))).json()["files"] == []
    answer: Any = api.get(f"tasks/{task.pk}/files/{one.sha256}")
    assert b"".join(answer.streaming_content) == b"one"
    assert "attachment" in answer.headers["Content-Disposition"]
    refused = api.get(f"tasks/{other.pk}/files/{one.sha256}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown_file")
    assert api.get(f"tasks/{task.pk}/files/..%2f..%2fetc").status_code in (404, 422)
    store().delete(one.sha256)
    assert api.get(f"tasks/{task.pk}/files/{one.sha256}").status_code == 503


@pytest.mark.parametrize(
    ("url", "kind", "expected"),
    [
        ("http://a/x/b.pdf?c=d/e.exe", "application/pdf", "b.pdf"),
        ("http://a/", "image/png", "0123456789ab.png"),
        ("http://a/download", "application/pdf", "download.pdf"),
        ("http://a/..%2f..%2fetc%2fpasswd", "text/plain", "passwd.txt"),
        ("http://a/%0d%0aSet-Cookie:%20a=b", "text/plain", "Set-Cookie_a_b.txt"),
        ("http://a/.htaccess", "text/plain", "htaccess.txt"),
        (f"http://a/{'x' * 300}.pdf", "application/pdf", f"{'x' * 116}.pdf"),
        ("http://a/名.pdf", "application/pdf", "名.pdf"),
    ],
)
def test_names_of_downloads(url: str, kind: str, expected: str) -> None:
    assert name_of(url, kind, "0123456789abcdef" * 4) == expected
