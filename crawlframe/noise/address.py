"""What of a URL is compared with others: which URLs it can be of a family with, and its parts."""

from __future__ import annotations

import re
from typing import NamedTuple

# An id: a UUID, or at least eight hexadecimal digits with a decimal one among them.
_ID = re.compile(
    r"(?<![A-Za-z0-9])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9a-fA-F]{8,})(?![A-Za-z0-9])"
)
_NUMBER = re.compile(r"[0-9]+")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
LONGEST_KIND = 16  # characters of a kind
_KIND = re.compile(rf"[A-Za-z_]{{1,{LONGEST_KIND}}}[.:](?=.)")
LONGEST = 400  # characters of a URL that are compared


class Group(NamedTuple):
    """URLs that can be of one family: ``host``, ``depth`` (parts of the path; the
    last one counts as two, its kind and its name), its ``ending``, and the ``names`` of the query,
    sorted."""

    host: str
    depth: int
    ending: str
    names: tuple[str, ...]


def parts_of(url: str) -> tuple[Group, tuple[str, ...]]:
    """Returns the group of a normalised URL, and the parts of its path and the values of its query,
    in which numbers are "0" and ids "#"."""
    pieces = url[:LONGEST].split("/", 3)
    target, _, query = pieces[3].partition("?")
    target = _NUMBER.sub("0", _ID.sub("#", target))
    found = _ENDING.search(target)
    ending = found[0].lower() if found else ""
    parts = target.split("/")
    # Generators put the kind of a page in front of its name: struct.Name.html, Talk:Name.
    name = parts[-1][: len(parts[-1]) - len(ending)]
    kind = _KIND.match(name)
    parts[-1:] = [kind[0], name[kind.end() :]] if kind else ["", name]
    depth = len(parts)
    if not query:
        return Group(pieces[2], depth, ending, ()), tuple(parts)
    query = _NUMBER.sub("0", _ID.sub("#", query))
    pairs = sorted(part.partition("=")[::2] for part in query.split("&") if part)
    names = tuple(dict.fromkeys(name for name, _ in pairs))
    values = tuple(value for _, value in pairs)
    return Group(pieces[2], depth, ending, names), (*parts, *values[: 2 * len(names)])
