"""Files while workers are killed and the store is pruned: each row names a file that is whole."""

from __future__ import annotations

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.conf import settings
from django.core.management import call_command

from crawlservice.files.download import store
from crawlservice.models import Page, PageFile, StoredFile
from tests.conftest import Running
from tests.process.conftest import Look, Submit

FILES, KINDS = 40, 30  # so some have equal contents
SIZE = 2 << 20  # bytes, from which they are continued
PIECES = 16
KILLS = 6

pytestmark = pytest.mark.process


class FileSite:
    """Serves files slowly, and parts of them. ``continued`` counts requests for a part."""

    def __init__(self) -> None:
        bodies = [b"PK\x03\x04" + random.Random(n).randbytes(SIZE - 4) for n in range(KINDS)]
        self.bodies = {f"/{n}.zip": bodies[n % KINDS] for n in range(FILES)}
        self.asked: Counter[str] = Counter()
        self.continued = 0
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                site.asked[self.path] += 1
                if (body := site.bodies.get(self.path)) is None:
                    links = "".join(f"<a href='{path}'>f</a>" for path in site.bodies).encode()
                    self._head(200, len(links), "text/html")
                    self.wfile.write(links)
                    return
                tag = f'"{hashlib.sha256(body).hexdigest()}"'
                first = 0
                if self.headers.get("If-Range") == tag:
                    first = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
                    site.continued += 1
                part = {"Content-Range": f"bytes {first}-{SIZE - 1}/{SIZE}"} if first else {}
                self._head(206 if first else 200, SIZE - first, "application/zip", ETag=tag, **part)
                for at in range(first, SIZE, SIZE // PIECES):
                    self.wfile.write(body[at : min(SIZE, at + SIZE // PIECES)])
                    time.sleep(0.02)

            def _head(self, status: int, length: int, kind: str, **more: str) -> None:
                self.send_response(status)
                fields = {"Content-Type": kind, "Content-Length": str(length), **more}
                for name, value in fields.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # its client was killed

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


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
