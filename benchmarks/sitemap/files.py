"""Files: the sitemaps, packed with gzip, on a trivial server on loopback."""

from __future__ import annotations

import gzip
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.sitemap.spiders.million import PAGES

NAMESPACE = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
MOST = 50_000  # URLs of a sitemap, by the protocol


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: Any) -> None:
        pass


class Files:
    """``with Files(directory, urls) as url:`` serves a sitemap of so many pages: an index of files
    as the protocol has them, or a single file if ``one`` is true."""

    def __init__(self, directory: Path, urls: int, *, one: bool) -> None:
        directory.mkdir()
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), partial(_Quiet, directory=str(directory))
        )
        self._site = f"http://127.0.0.1:{self._server.server_port}"
        size = urls if one else MOST
        names: list[str] = []
        for first in range(0, urls, size):
            names.append(f"sitemap{len(names)}.xml.gz")
            rows = "".join(
                f"<url><loc>{self._site}{PAGES}{n:012}?view=list</loc>"
                "<lastmod>2026-11-20</lastmod></url>\n"
                for n in range(first, min(urls, first + size))
            )
            _pack(directory / names[-1], f"<urlset {NAMESPACE}>\n{rows}</urlset>")
        index = "".join(f"<sitemap><loc>{self._site}/{name}</loc></sitemap>\n" for name in names)
        _pack(directory / "index.xml.gz", f"<sitemapindex {NAMESPACE}>\n{index}</sitemapindex>")
        self._first = f"{self._site}/{names[0] if one else 'index.xml.gz'}"

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self._first

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def _pack(file: Path, text: str) -> None:
    file.write_bytes(gzip.compress(text.encode(), 6))
