"""Media pipelines of Scrapy against a server, also with Pillow and botocore."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import Counter
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy.settings import Settings

from crawlframe.scrapy.spider import ported
from tests.node.runner import Spiders
from tests.scrapy_projects.ours import Crawled, crawl

pytestmark = pytest.mark.filterwarnings("ignore::scrapy.exceptions.ScrapyDeprecationWarning")
FILE = b"a file"


class Server:
    """Serves ``pages``; a PUT makes a page, too, as in a bucket of S3. ``asked`` counts."""

    def __init__(self) -> None:
        self.pages: dict[str, bytes] = {"/": b"<html></html>"}
        self.moved: dict[str, str] = {}  # path -> Location
        self.asked: Counter[str] = Counter()
        self.sent: dict[str, dict[str, str]] = {}  # headers of each PUT
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = server.pages.get(self.path)
                server.asked[f"{self.command} {self.path}"] += 1
                target = server.moved.get(self.path)
                self.send_response(301 if target else 404 if body is None else 200)
                if target:
                    self.send_header("Location", target)
                self.send_header("Content-Length", str(len(body or b"")))
                self.send_header("ETag", f'"{hashlib.md5(body or b"").hexdigest()}"')
                self.send_header("Last-Modified", formatdate(usegmt=True))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body or b"")

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_PUT(self) -> None:
                if self.headers.get("Expect"):
                    self.send_response_only(100)
                    self.end_headers()
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.pages[self.path] = body
                server.sent[self.path] = dict(self.headers.items())
                server.asked[f"PUT {self.path}"] += 1
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


def crawled(server: Server, urls: dict[str, list[str]], **settings: Any) -> Crawled:
    """The crawl of one page whose item has these URLs."""

    class Media(scrapy.Spider):
        name = "media"
        start_urls = [f"{server.url}/"]

        def parse(self, response: Any) -> Any:
            yield {field: [*map(response.urljoin, paths)] for field, paths in urls.items()}

    project = Settings()
    project.setdict({"ROBOTSTXT_OBEY": False, "DOWNLOAD_DELAY": 0, **settings}, "project")
    return crawl(Spiders(ported(Media, project)), "media")


def test_images_are_stored_with_their_thumbnails(server: Server, tmp_path: Path) -> None:
    pillow = pytest.importorskip("PIL.Image")
    made = io.BytesIO()
    pillow.new("RGB", (40, 20), "red").save(made, "PNG")
    server.pages |= {"/good.png": made.getvalue(), "/bad.png": b"no image"}
    done = crawled(
        server,
        {"image_urls": ["/good.png", "/bad.png", "/missing.png"]},
        ITEM_PIPELINES={"scrapy.pipelines.images.ImagesPipeline": 1},
        IMAGES_STORE=str(tmp_path),
        IMAGES_THUMBS={"small": (10, 10)},
    )
    (item,) = done.items
    (image,) = item["images"]
    assert image["url"] == f"{server.url}/good.png"
    assert image["status"] == "downloaded"
    stored = (tmp_path / image["path"]).read_bytes()
    assert image["checksum"] == hashlib.md5(stored).hexdigest()
    thumbnail = tmp_path / "thumbs" / "small" / Path(image["path"]).name
    for path, size in ((tmp_path / image["path"], (40, 20)), (thumbnail, (10, 5))):
        with pillow.open(path) as opened:
            assert opened.size == size


@pytest.mark.parametrize("allowed", [False, True])
def test_files_that_redirect_are_stored_if_the_project_says_so(
    server: Server, tmp_path: Path, allowed: bool
) -> None:
    server.pages["/file.txt"] = FILE
    server.moved["/old.txt"] = "/file.txt"
    done = crawled(
        server,
        {"file_urls": ["/old.txt", "/file.txt", "/missing.txt"]},
        ITEM_PIPELINES={"scrapy.pipelines.files.FilesPipeline": 1},
        FILES_STORE=str(tmp_path),
        MEDIA_ALLOW_REDIRECTS=allowed,
    )
    (item,) = done.items
    stored = {file["url"]: (tmp_path / file["path"]).read_bytes() for file in item["files"]}
    names = ["/old.txt", "/file.txt"] if allowed else ["/file.txt"]
    assert stored == {f"{server.url}{name}": FILE for name in names}


def test_files_are_stored_in_s3(server: Server) -> None:
    """An object that is there, and is recent, is not fetched again."""
    pytest.importorskip("botocore")
    server.pages["/file.txt"] = FILE
    for status in ("downloaded", "uptodate"):
        done = crawled(
            server,
            {"file_urls": ["/file.txt"]},
            ITEM_PIPELINES={"scrapy.pipelines.files.FilesPipeline": 1},
            FILES_STORE="s3://bucket/files/",
            FILES_STORE_S3_ACL="public-read",
            AWS_ENDPOINT_URL=server.url,
            AWS_ACCESS_KEY_ID="key",
            AWS_SECRET_ACCESS_KEY="secret",
            AWS_REGION_NAME="nowhere-1",
        )
        (item,) = done.items
        (file,) = item["files"]
        assert (file["status"], file["checksum"]) == (status, hashlib.md5(FILE).hexdigest())
        place = f"/bucket/files/{file['path']}"
        assert FILE in server.pages[place]  # the client may send it in chunks with a checksum
        assert server.sent[place]["x-amz-acl"] == "public-read"
    assert server.asked["GET /file.txt"] == server.asked[f"PUT {place}"] == 1
