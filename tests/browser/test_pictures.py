"""A browser's pictures of a page, in the admin: light and dark, on a desktop and on a phone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from django.conf import settings
from django.utils import timezone
from playwright.sync_api import Page, expect

from crawlframe.files.saved_file import SavedFile
from crawlframe.frontier import Frontier
from crawlframe.request.request import make_rid
from crawlframe.response.picture import MEDIA_TYPES, Picture
from crawlframe.run.outcome import Outcome, Verdict
from crawlservice.files.download import store
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Page as PageRow
from crawlservice.models import Task
from tests.browser.conftest import chromium
from tests.servers import served

if TYPE_CHECKING:
    from tests.conftest import NewDatabase

pytestmark = [pytest.mark.process, pytest.mark.parametrize("database", ["sqlite"], indirect=True)]

SHOP = """<body style="margin: 0; font: 20px sans-serif"><h1 style="background: #246; color: white;
padding: 40px">A shop</h1><p style="padding: 20px">No button here, as the action found."""
SCREENS: tuple[tuple[Literal["light", "dark"], int], ...] = (("light", 1280), ("dark", 390))


def shot() -> bytes:
    with chromium() as browser:
        page = browser.new_page()
        page.set_content(SHOP)
        return page.screenshot(type="jpeg", quality=60)


@pytest.fixture
def address(
    service: Frontier,
    manage_env: dict[str, str],
    new_database: NewDatabase,
    settings_with: Callable[..., None],
    tmp_path: Path,
) -> Iterator[str]:
    """The address of the page of a request that failed, which has pictures of all kinds."""
    manage_env["CRAWLFRAME_FILES"] = str(tmp_path / "files")
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, files=str(tmp_path / "files")))
    store.cache_clear()
    ended = {"state": "finished", "finished_at": timezone.now()}
    task = Task.objects.create(spider="shop", seeds=b"", na=1, ne=1, **ended)
    url = "https://shop.example/offers?of=today"
    outcome = Outcome(make_rid(task.pk, b"a"), task.pk, "h", b"record", 0, 0, url=url)
    outcome.end(Verdict.ERROR, "action", f"{url}: action 1, click 'button.more': Timeout 10000ms")
    bodies = {"failure": shot(), "screenshot": shot() + b" ", "pdf": b"%PDF-1.7"}
    for kind, body in bodies.items():
        store().spool.mkdir(parents=True, exist_ok=True)
        local = store().spool / "x.part"
        local.write_bytes(body)
        sha256 = hashlib.sha256(body).hexdigest()
        path = store().put(local, sha256)
        file = SavedFile(url, path, sha256, len(body), MEDIA_TYPES[kind])
        outcome.results.pictures.append(Picture(kind, b"", file))
    DjangoLedger().commit([outcome])
    row = PageRow.objects.get()
    with served(manage_env) as (place, _):
        yield f"{place}admin/crawlservice/page/{row.pk}/change/"
    store.cache_clear()


def test_pictures_are_seen(address: str, open_page: Callable[[str], Page]) -> None:
    page = open_page(address)
    images = page.locator("#cf-pictures img")
    expect(images).to_have_count(2)
    for scheme, width in SCREENS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 844})
        page.goto(address)
        for n in range(2):
            images.nth(n).scroll_into_view_if_needed()
            page.wait_for_function(
                "n => document.querySelectorAll('#cf-pictures img')[n].naturalWidth > 600", arg=n
            )
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        assert not page.evaluate(wide)
    assert page.evaluate("window.violations") == []
    images.first.click()  # alone, as an image
    page.wait_for_url("**/pictures/**")
    assert page.evaluate("document.contentType") == "image/jpeg"
