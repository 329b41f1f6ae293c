"""Pictures of a browser in the service: rows with their pages, counts, and rights."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from crawlframe.errors import StoreError
from crawlframe.files.saved_file import SavedFile
from crawlframe.frontier import Frontier
from crawlframe.request.request import make_rid
from crawlframe.response.picture import MEDIA_TYPES, Picture
from crawlframe.run.ledger import LedgerAway
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.files.download import store
from crawlservice.files.pruning import prune_unused
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Item, Page, PageFile, StoredFile, Task
from tests.crawlservice.programs import person
from tests.crawlservice.web import log_in_as, texts

URL = "https://shop.example/a"
JPEG = b"\xff\xd8\xff\xe0 a picture"
HTML = b"<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _folder(
    published: Frontier, settings_with: Callable[..., None], tmp_path: Path
) -> Iterator[None]:
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, files=str(tmp_path / "files")))
    store.cache_clear()
    yield
    store.cache_clear()


@pytest.fixture
def task() -> Task:
    ended = {"state": "finished", "finished_at": timezone.now()}
    return Task.objects.create(spider="shop", seeds=b"", na=1, nf=1, items=1, **ended)


def taken(kind: str, body: bytes = JPEG) -> Picture:
    store().spool.mkdir(parents=True, exist_ok=True)
    local = store().spool / "x.part"
    local.write_bytes(body)
    sha256 = hashlib.sha256(body).hexdigest()
    path = store().put(local, sha256)
    return Picture(kind, b"", SavedFile(URL, path, sha256, len(body), MEDIA_TYPES[kind]))


def page(task: Task, name: bytes, *pictures: Picture, failed: bool = False) -> Page:
    rid = make_rid(task.pk, name)
    outcome = Outcome(rid, task.pk, "h", b"record", 0, 0, url=URL)
    if failed:
        outcome.end(Verdict.ERROR, "action", "no button")
    outcome.results.pictures = [*pictures]
    DjangoLedger().commit([outcome])
    return Page.objects.get(rid=UUID(bytes=rid))


def place(row: Page, picture: Picture) -> str:
    assert picture.file is not None
    return f"/admin/crawlservice/page/{row.pk}/pictures/{picture.file.sha256}/"


def test_they_are_on_the_page_of_their_request(task: Task) -> None:
    shot, pdf = taken("screenshot"), taken("pdf", b"%PDF-1.7")
    row = page(task, b"a", shot, pdf)
    client = log_in_as("viewer")
    shown = client.get(f"/admin/crawlservice/page/{row.pk}/change/").content.decode()
    assert f'<img src="{place(row, shot)}"' in shown
    assert "by an action" in texts(shown, "#cf-pictures figcaption")[0]
    assert "The page as PDF" in texts(shown, "#cf-files dd")[0]
    assert (
        "Saved files"
        not in client.get(
            f"/admin/crawlservice/page/{page(task, b'b', taken('failure'), failed=True).pk}/change/"
        ).content.decode()
    )


def test_pictures_are_served_as_images_and_nothing_else(task: Task) -> None:
    shot, evil = taken("screenshot"), taken("failure", HTML)
    row = page(task, b"a", shot, evil, taken("pdf", b"%PDF-1.7"))
    client = log_in_as("viewer")
    answer = client.get(place(row, shot))
    assert b"".join(answer.streaming_content) == JPEG  # type: ignore[attr-defined]
    assert answer.headers["Content-Type"] == "image/jpeg"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert client.get(place(row, evil)).status_code == 404
    assert client.get(place(row, taken("pdf", b"%PDF-1.7"))).status_code == 404
    other = page(task, b"b")
    assert client.get(place(other, shot)).status_code == 404
    assert shot.file is not None
    store().delete(shot.file.sha256)
    assert client.get(place(row, shot)).status_code == 404


def test_a_picture_that_an_item_names_is_shown_in_the_table(task: Task) -> None:
    shot = taken("screenshot")
    assert shot.file is not None
    row = page(task, b"a", shot)
    named = {"sha256": shot.file.sha256, "media_type": "image/jpeg", "url": "http://x/<b>"}
    data = {"image": named, "other": {"media_type": "image/png", "sha256": "../x"}}
    item = Item.objects.create(task=task, rid=row.rid, ordinal=0, data=data)
    client, table = log_in_as("viewer"), f"/admin/crawlservice/task/{task.pk}/items/"
    (src,) = re.findall('<img[^>]* src="(.+?)"', client.get(table).content.decode())
    assert src == f"{table}{item.pk}/{shot.file.sha256}/"
    assert b"".join(client.get(src).streaming_content) == JPEG  # type: ignore[attr-defined]
    assert client.get(src.replace(f"{item.pk}/", "99/")).status_code == 404


def test_who_may_not_see_the_page_does_not_see_them(task: Task) -> None:
    shot = taken("screenshot")
    row = page(task, b"a", shot)
    assert Client(SERVER_NAME="localhost").get(place(row, shot)).status_code == 302
    nobody = Client(SERVER_NAME="localhost")
    nobody.force_login(person("", is_staff=True))
    assert nobody.get(place(row, shot)).status_code == 403


def test_the_newest_of_each_kind_are_kept(task: Task, settings_with: Callable[..., None]) -> None:
    settings_with(KEEP_PICTURES=2)
    for n in range(4):
        page(task, b"s%d" % n, taken("screenshot", JPEG + b"%d" % n))
    page(task, b"f", taken("failure"), failed=True)
    rows = PageFile.objects.order_by("pk")
    assert [row.kind for row in rows] == ["screenshot", "screenshot", "failure"]
    assert [row.rid.bytes for row in rows[:2]] == [make_rid(task.pk, b"s%d" % n) for n in (2, 3)]
    assert StoredFile.objects.count() == 5  # until files that no page names are pruned


def test_none_are_kept_with_0(task: Task, settings_with: Callable[..., None]) -> None:
    settings_with(KEEP_PICTURES=0)
    page(task, b"a", taken("screenshot"))
    assert not PageFile.objects.exists()
    assert StoredFile.objects.count() == 1, "pruned like others that no page names"


def test_without_any_kept_the_files_are_pruned_and_no_page_names_them(
    task: Task, settings_with: Callable[..., None]
) -> None:
    page(task, b"a", taken("screenshot"))
    settings_with(KEEP_PICTURES=0)
    page(task, b"b", taken("screenshot", JPEG + b"2"))
    assert not PageFile.objects.exists(), "also those of before"
    saved = [*StoredFile.objects.values_list("pk", flat=True)]
    assert prune_unused(timedelta(0)).files == len(saved) == 2
    assert [store().size(sha256) for sha256 in saved] == [None, None]
    assert Page.objects.count() == 2


def test_a_page_goes_without_a_picture_that_was_pruned_meanwhile(task: Task) -> None:
    gone, kept = taken("screenshot"), taken("pdf", b"%PDF-1.7")
    assert gone.file is not None
    store().delete(gone.file.sha256)
    row = page(task, b"a", gone, kept)
    assert row.reason == ""
    assert [one.kind for one in PageFile.objects.all()] == ["pdf"]
    assert StoredFile.objects.count() == 1, "no name of a file that is gone"


def test_a_picture_that_is_gone_is_still_that_of_other_pages(task: Task) -> None:
    gone = taken("screenshot")
    page(task, b"a", gone)
    assert gone.file is not None
    store().delete(gone.file.sha256)
    page(task, b"b", gone, failed=True)
    assert [one.rid.bytes for one in PageFile.objects.all()] == [make_rid(task.pk, b"a")]
    assert StoredFile.objects.count() == 1


def test_a_store_that_fails_before_the_commit_costs_pictures_and_no_page(
    task: Task, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shot, pdf = taken("screenshot"), taken("pdf", b"%PDF-1.7")

    def away(sha256: str) -> int:
        raise StoreError("the file store: not mounted")

    monkeypatch.setattr(store(), "size", away)
    page(task, b"a", shot, pdf)
    assert not PageFile.objects.exists()
    assert "2 pictures are not kept: the file store: not mounted" in caplog.text
    both = Outcome(make_rid(task.pk, b"b"), task.pk, "h", b"record", 0, 0, url=URL)
    assert shot.file is not None
    both.results.pictures, both.results.files = [shot, pdf], [shot.file]
    with pytest.raises(LedgerAway):  # a file that the spider saved is waited for
        DjangoLedger().commit([both])
    monkeypatch.undo()
    assert [*DjangoLedger().commit([both])] == [both.rid]
    assert sorted(one.kind for one in PageFile.objects.all()) == ["", "pdf"]


def test_only_the_run_that_counts_names_its_own(task: Task) -> None:
    page(task, b"a", taken("screenshot"))
    page(task, b"a", taken("screenshot", JPEG + b"2"))
    (row,) = PageFile.objects.all()
    assert row.file_id == hashlib.sha256(JPEG).hexdigest()
