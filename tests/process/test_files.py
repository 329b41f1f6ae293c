"""Files while workers are killed and the store is pruned: each row names a file that is whole."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from io import StringIO
from pathlib import Path

import psutil
import pytest
from django.conf import settings
from django.core.management import call_command

from crawlservice.files.download import store
from crawlservice.models import Page, PageFile, StoredFile
from tests.conftest import Running
from tests.process.conftest import Answer, Look, SmallSite, Submit

FILES, KINDS = 40, 30  # so some have equal contents
SIZE = 2 << 20  # bytes, from which they are continued
PIECES = 16
KILLS = 6

pytestmark = pytest.mark.process


class FileSite(SmallSite):
    """Serves files slowly, and parts of them. ``continued`` counts requests for a part."""

    def __init__(self) -> None:
        bodies = [b"PK\x03\x04" + random.Random(n).randbytes(SIZE - 4) for n in range(KINDS)]
        self.bodies = {f"/{n}.zip": bodies[n % KINDS] for n in range(FILES)}
        self.asked: Counter[str] = Counter()
        self.continued = 0
        super().__init__()

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        self.asked[asked.path] += 1
        if (body := self.bodies.get(asked.path)) is None:
            return 200, {}, "".join(f"<a href='{path}'>f</a>" for path in self.bodies).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        headers = {"Content-Type": "application/zip", "ETag": tag}
        if asked.headers.get("If-Range") != tag:
            return 200, headers, body
        first = int(asked.headers["Range"].removeprefix("bytes=").removesuffix("-"))
        self.continued += 1
        return 206, headers | {"Content-Range": f"bytes {first}-{SIZE - 1}/{SIZE}"}, body[first:]

    def send(self, asked: BaseHTTPRequestHandler, body: bytes) -> None:
        for at in range(0, len(body), SIZE // PIECES):
            asked.wfile.write(body[at : at + SIZE // PIECES])
            time.sleep(0.02)


@pytest.fixture
def site() -> Iterator[FileSite]:
    site = FileSite()
    yield site
    site.close()


@pytest.fixture
def folder(
    odd_env: dict[str, str], settings_with: Callable[..., None], tmp_path: Path
) -> Iterator[Path]:
    folder = tmp_path / "kept files"
    odd_env["CRAWLFRAME_FILES"] = str(folder)
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, files=str(folder)))
    store.cache_clear()
    yield folder
    store.cache_clear()


@pytest.mark.databases("postgres")
def test_files_are_exact_though_workers_die_and_the_store_is_pruned(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    site: FileSite,
    folder: Path,
) -> None:
    node = start_manage("runcrawler", "--node", "one", "--workers", 2, "--concurrency", 4)
    pk = submit("saving", url=site.url)
    chance = random.Random(1)
    for kill in range(1, KILLS + 1):
        look.wait(pk, lambda task, n=kill: site.asked.total() > 4 * n)  # type: ignore[misc]
        chance.choice(psutil.Process(node.process.pid).children()).kill()
        call_command("store", "prune-files", "--older-than", "0", stdout=StringIO())
    task = look.wait(pk)
    failed = [*Page.objects.filter(task=pk, state="error").values_list("url", "reason", "detail")]
    assert (task.state, task.nf, failed) == ("finished", FILES + 2, [])
    assert site.continued > 0

    expected = {
        f"{site.url}{path[1:]}": hashlib.sha256(body).hexdigest()
        for path, body in site.bodies.items()
    }
    items = look.items(pk)
    assert {item["file"]["url"]: item["file"]["sha256"] for item in items} == expected
    assert len(items) == FILES
    for item in items:
        body = (folder / item["file"]["path"]).read_bytes()
        assert hashlib.sha256(body).hexdigest() == item["file"]["sha256"]
    assert {*PageFile.objects.values_list("url", "file")} == {*expected.items()}
    assert StoredFile.objects.count() == KINDS
    call_command("store", "check-files", "--contents", stdout=StringIO())
    assert look.frontier.audit() == []
    assert node.stop() == 0
