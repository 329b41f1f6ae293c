"""The header Link (RFC 8288): its links, with their parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TARGET = re.compile(r"[\s,]*<([^>]*)>")
_PARAMETER = re.compile(
    r'\s*;\s*([^\s=;,]*)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|([^;,]*)))?\s*', re.DOTALL
)


def targets_of(headers: Iterable[str], relation: str) -> Iterator[tuple[str, str]]:
    """The targets of links with this relation, as written, each with its anchor, by the algorithm
    of RFC 8288, appendix B.2. Raises ValueError with the rest of a header that cannot be read."""
    for header in headers:
        place = 0
        while target := _TARGET.match(header, place):
            place = target.end()
            parameters: dict[str, str] = {}
            while found := _PARAMETER.match(header, place):
                place = found.end()
                name, quoted, plain = found.groups()
                value = (plain or "").strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
                parameters.setdefault(name.lower(), value)
            if relation in parameters.get("rel", "").lower().split():
                yield target[1].strip(), parameters.get("anchor", "")
        if header[place:].strip(" \t,"):
            raise ValueError(header[place:])
