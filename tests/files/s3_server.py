"""A part of S3 that suffices for a file store, in memory."""

from __future__ import annotations

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

NOW = "2026-11-01T10:00:00.000Z"


class S3Server:
    """``objects``: by bucket and key. ``broken``: every answer is 500."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[int, bytes] = {}
        self.uploads = 0
        self.broken = False
        s3 = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _do(self) -> None:
                parts = urlsplit(self.path)
                key, query = unquote(parts.path).strip("/"), parse_qs(parts.query, True)
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                if s3.broken:
                    self._answer(500, b"")
                elif self.command == "PUT" and "partNumber" in query:
                    s3.parts[int(query["partNumber"][0])] = body
                    self._answer(200, b"", ETag=_tag(body))
                elif self.command == "PUT":
                    s3.objects[key] = body
                    self._answer(200, b"", ETag=_tag(body))
                elif self.command == "POST" and "uploads" in query:
                    s3.uploads += 1
                    told = "<UploadId>1</UploadId>"
                    self._answer(200, _xml("InitiateMultipartUploadResult", told))
                elif self.command == "POST":
                    s3.objects[key] = b"".join(part for _, part in sorted(s3.parts.items()))
                    self._answer(200, _xml("CompleteMultipartUploadResult", "<ETag>x</ETag>"))
                elif self.command == "DELETE":
                    s3.objects.pop(key, None)
                    self._answer(204, b"")
                elif "list-type" in query:
                    self._answer(200, s3.listing(key, query["prefix"][0]))
                elif key in s3.objects:
                    self._answer(200, s3.objects[key], ETag=_tag(s3.objects[key]))
                else:
                    self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _do  # noqa: N815

            def _answer(self, status: int, body: bytes, **headers: str) -> None:
                asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
                if asked and status == 200:
                    first, last = int(asked[1]), min(int(asked[2]), len(body) - 1)
                    headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
                    status, body = 206, body[first : last + 1]
                self.send_response(status)
                headers |= {"Content-Length": str(len(body)), "Last-Modified": _HTTP_NOW}
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def listing(self, bucket: str, prefix: str) -> bytes:
        rows = "".join(
            f"<Contents><Key>{key.removeprefix(f'{bucket}/')}</Key><Size>{len(body)}</Size>"
            f"<LastModified>{NOW}</LastModified><ETag>x</ETag></Contents>"
            for key, body in sorted(self.objects.items())
            if key.startswith(f"{bucket}/{prefix}")
        )
        return _xml("ListBucketResult", f"<IsTruncated>false</IsTruncated>{rows}")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


_HTTP_NOW = "Sun, 01 Nov 2026 10:00:00 GMT"


def _tag(body: bytes) -> str:
    return f'"{hashlib.md5(body).hexdigest()}"'


def _xml(name: str, inside: str) -> bytes:
    space = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<?xml version="1.0"?><{name} xmlns="{space}">{inside}</{name}>'.encode()
