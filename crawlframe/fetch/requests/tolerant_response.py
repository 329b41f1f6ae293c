"""TolerantResponse: an HTTP/1 response whose head is read as libcurl reads it, except that lines
that are no headers are ignored, as browsers do.

The standard library knows no 1xx response but 100, and drops all headers after an odd line."""

from __future__ import annotations

import http.client
import re

from crawlframe.fetch.body.received import header_of

# The limits of libcurl.
MAX_LINE = 100 << 10  # bytes
MAX_HEAD = 300 << 10  # bytes, including 1xx responses
MAX_HEADERS = 5000

_STATUS = re.compile(rb"HTTP/(1\.[01]|[23]\.0) ([1-9][0-9]{2})(?: (.*))?", re.IGNORECASE)


class TolerantResponse(http.client.HTTPResponse):
    """The response of a connection of http.client."""

    _left: int  # bytes that the head may still have
    _method: str

    def begin(self) -> None:
        """Reads the head. Raises HTTPException if it is not valid."""
        if self.headers is not None:
            return
        self._left = MAX_HEAD
        status = 100
        while 100 <= status < 200:  # the response follows
            lines = self._read_head()
            found = _STATUS.fullmatch(lines[0])
            if found is None:
                raise http.client.BadStatusLine(lines[0].decode("latin-1"))
            status = int(found[2])
            if status == 101:
                raise http.client.HTTPException("it switches to a protocol that was not asked for")
        self.code = self.status = status
        self.reason = (found[3] or b"").decode("latin-1").strip()
        self.version = 10 if found[1] == b"1.0" else 11
        self.headers = self.msg = http.client.HTTPMessage()
        for line in lines[1:]:
            if header := header_of(line):
                self.headers.add_header(*header)
        self._delimit()

    def _read_head(self) -> list[bytes]:
        """The lines of a head, continued ones joined, without lines that are no headers."""
        lines: list[bytes] = []
        while line := self.fp.readline(MAX_LINE + 1):
            self._left -= len(line)
            if len(line) > MAX_LINE or self._left < 0 or len(lines) > MAX_HEADERS:
                raise http.client.HTTPException("the head is too large")
            line = line.removesuffix(b"\n").removesuffix(b"\r")
            if b"\r" in line or b"\0" in line:
                raise http.client.HTTPException("a header has a carriage return or NUL byte")
            folded = line[:1] in (b" ", b"\t")
            if not lines or (b":" in line and not folded):
                lines.append(line)
            elif not line:
                return lines
            elif folded and len(lines) > 1 and lines[-1]:
                lines[-1] += b" " + line.strip()
            else:
                lines.append(b"")  # its continuation is ignored, too
        if not lines:
            raise http.client.RemoteDisconnected("the connection was closed without a response")
        return lines

    def _delimit(self) -> None:
        """Sets where the body ends (RFC 9112, 6.3). Raises HTTPException if that is unclear."""
        codings = _values(self.headers, "Transfer-Encoding") - {"identity"}
        lengths = _values(self.headers, "Content-Length")
        if codings - {"chunked"}:
            raise http.client.HTTPException(f"it has the transfer coding {max(codings)!r}")
        if len(lengths) > 1 or not all(one.isascii() and one.isdigit() for one in lengths):
            raise http.client.HTTPException(f"it has the length {' and '.join(sorted(lengths))!r}")
        self.chunked = bool(codings)
        self.chunk_left = None
        self.length = None if self.chunked or not lengths else int(lengths.pop())
        if self.status in (204, 304) or self._method == "HEAD":
            self.length = 0
        unlimited = not self.chunked and self.length is None
        self.will_close = bool(self._check_close() or unlimited)  # type: ignore[attr-defined]


def _values(headers: http.client.HTTPMessage, name: str) -> set[str]:
    lists = headers.get_all(name, [])
    return {value.strip().lower() for values in lists for value in values.split(",")}
