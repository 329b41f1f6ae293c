"""ErrorText: the parts of an error's detail, which is a message or a traceback."""

from __future__ import annotations

import re
from typing import NamedTuple

FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.M)
LIBRARIES = re.compile(r"/(?:site|dist)-packages/|/lib/python3[^/]*/")


class ErrorText(NamedTuple):
    """``message``: the first line that belongs to no frame, without the URL of the request.
    ``place``, such as ``shop.py:12``, and ``source``, its line of code: of ``own_frame``. Empty:
    there is none. ``more``: the detail says more than the message."""

    message: str
    more: bool
    place: str = ""
    source: str = ""

    @classmethod
    def of(cls, detail: str, url: str = "") -> ErrorText:
        lines = (line.rstrip() for line in detail.splitlines())
        said = (line for line in lines if line[:1].strip() and not line.endswith(":"))
        message = re.sub(rf"^{re.escape(url)}(: | )[: ]*", "", next(said, ""))
        more = "\n" in detail.strip()
        if (frame := own_frame(detail)) is None:
            return cls(message, more)
        below = detail[frame.end() + 1 :].partition("\n")[0]
        source = below.strip() if below.startswith("    ") else ""
        return cls(message, more, f"{frame['file']}:{frame['line']}", source)


def own_frame(detail: str) -> re.Match[str] | None:
    """The innermost frame of authors' code, or else of a library's; None without a traceback."""
    frames = [*FRAME.finditer(detail)]
    own = [frame for frame in frames if not LIBRARIES.search(frame["file"])]
    return next(reversed(own or frames), None)
