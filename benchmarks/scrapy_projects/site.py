"""A local server that is every host: on the ports 80 and 443 of the fence, with a certificate for
each name."""

from __future__ import annotations

import ssl
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

from benchmarks.scrapy_projects.authority import Authority
from benchmarks.scrapy_projects.fence import HERE
from benchmarks.scrapy_projects.pages import Page, Pages


class Site:
    """``with Site(authority) as site: site.pages = ...``. ``asked``: method, URL and status of
    each request since the pages were set."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._ends = ExitStack()
        self.asked: list[tuple[str, str, int]] = []
        self._pages = Pages({}, Path())

    @property
    def pages(self) -> Pages:
        return self._pages

    @pages.setter
    def pages(self, pages: Pages) -> None:
        self._pages = pages
        self.asked = []

    def __enter__(self) -> Site:
        for port, scheme in ((80, "http"), (443, "https")):
            self._serve(port, scheme)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.close()

    def answer(self, method: str, url: str) -> Page:
        page = self._pages.at(method, url)
        self.asked.append((method, url, page.status))
        return page

    def _serve(self, port: int, scheme: str) -> None:
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                host = self.headers.get("Host", "").removesuffix(f":{port}")
                page = site.answer(self.command, f"{scheme}://{host}{self.path}")
                self.send_response(page.status)
                for name, value in page.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(page.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(page.body)

            do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = _answer  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer((HERE, port), Handler)
        server.daemon_threads = True
        if scheme == "https":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._authority.certificate("localhost"))
            context.sni_callback = self._chosen
            # The handshake is made by the thread of the connection.
            server.socket = context.wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        self._ends.callback(server.server_close)
        self._ends.callback(server.shutdown)

    def _chosen(self, connection: ssl.SSLObject, name: str | None, first: ssl.SSLContext) -> None:
        if name:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._authority.certificate(name))
            connection.context = context
