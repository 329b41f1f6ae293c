"""TolerantResponse: an HTTP/1 response whose head may have lines that are not headers, which it
ignores, as browsers do. The standard library drops all headers after such a line."""

from __future__ import annotations

import http.client
from typing import Any

MAX_IGNORED = 100  # lines in one head


class TolerantResponse(http.client.HTTPResponse):
    def begin(self) -> None:
        file = self.fp
        if self.headers is None and file is not None:
            self.fp = _Head(file)
        try:
            super().begin()
        finally:
            if self.fp is not None:  # else it is closed
                self.fp = file


class _Head:
    """A file without such lines. Raises HTTPException when there are more than MAX_IGNORED."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._begun = False
        self._ignored = 0

    def readline(self, limit: int) -> bytes:
        ignoring = False
        while True:
            line: bytes = self._file.readline(limit)
            folded = line[:1] in (b" ", b"\t")
            header = b":" in line or folded or line in (b"", b"\n", b"\r\n")
            status = not self._begun or line.startswith(b"HTTP/")  # the latter after 1xx
            too_long = len(line) >= limit  # refused by the caller
            if (header and not (ignoring and folded)) or status or too_long:
                self._begun = True
                return line
            ignoring = True
            self._ignored += 1
            if self._ignored > MAX_IGNORED:
                raise http.client.HTTPException(
                    f"more than {MAX_IGNORED} header lines have no colon"
                )

    def close(self) -> None:
        self._file.close()
