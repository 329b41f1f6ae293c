"""Repair of an XML element: unreadable markup is text as it is written, so that nothing is lost,
unlike with parsers that recover from errors by leaving out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from html.entities import html5
from xml.sax.saxutils import escape

CLOSERS = {"<!--": "-->", "<![CDATA[": "]]>", "<?": "?>"}
NAME = r"[^\W\d][\w.:-]*+"
TAG = re.compile(
    rf"<(?P<end>/?)(?P<name>{NAME})"
    r"""(?P<attributes>(?:\s++[^\s<>=/"']++\s*+=\s*+(?:"[^"<]*+"|'[^'<]*+'))*+\s*+)(?P<empty>/?)>"""
)
_MARKUP = re.compile(rf"(?P<opener><!--|<!\[CDATA\[|<\?)|{TAG.pattern}|(?P<lone><|\]\]>)")
_CHARACTER = re.compile(
    r"&(?:(#\d{1,7}|#x[0-9a-fA-F]{1,6}|[^\W\d]\w*);)?"
    r"|[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)
_PREFIX = re.compile(r"(?:</?|\s)([^\W\d][\w.-]*):[\w.-]+(?=[\s/>=])")


def repaired(source: str, entities: Mapping[str, str]) -> tuple[str, set[str]]:
    """The element with references for characters that are no markup: a lone "&" or "<", entities,
    and tags without their counterpart; and the prefixes of names in it. ``entities``: declared by
    the file, besides HTML's. A character that XML does not allow is U+FFFD."""
    parts: list[str] = []
    begun: list[tuple[str, int]] = []  # start tags, and where they are in ``parts``
    opened: Counter[str] = Counter()
    prefixes: set[str] = set()
    last = {closer: source.rfind(closer) for closer in CLOSERS.values()}
    at = 0

    def as_text(text: str) -> str:
        return _CHARACTER.sub(lambda found: _written(found, entities), text)

    def no_tag(place: int) -> None:
        parts[place] = escape(parts[place]).replace("&amp;", "&")

    while match := _MARKUP.search(source, at):
        parts.append(as_text(source[at : match.start()]))
        at, name = match.end(), match["name"]
        if opener := match["opener"]:
            closer = CLOSERS[opener]
            if last[closer] < at:
                parts.append(escape(opener))
                continue
            at = source.find(closer, at) + len(closer)
            parts.append(_CHARACTER.sub(_allowed, source[match.start() : at]))
            continue
        parts.append(as_text(match[0]))
        if match["lone"] or (match["end"] and not opened[name]):
            no_tag(-1)
            continue
        prefixes.update(_PREFIX.findall(match[0]))
        if match["end"]:
            while True:
                inner, place = begun.pop()
                opened[inner] -= 1
                if inner == name:
                    break
                no_tag(place)
        elif not match["empty"]:
            begun.append((name, len(parts) - 1))
            opened[name] += 1
    for _, place in begun:
        no_tag(place)
    return "".join([*parts, as_text(source[at:])]), prefixes - {"xml", "xmlns"}


def _written(found: re.Match[str], entities: Mapping[str, str]) -> str:
    """XML for "&", an entity or a character as the file has it."""
    text, name = found[0], found[1]
    if text[0] != "&":
        return "\ufffd"
    if name is None:
        return "&amp;"
    if name[0] == "#":
        number = int(name[2:], 16) if name[1] in "xX" else int(name[1:])
        allowed = number == 38 or (number <= 0x10FFFF and not _CHARACTER.match(chr(number)))
        return text if allowed else f"&amp;{name};"
    if name in ("amp", "lt", "gt", "quot", "apos"):
        return text
    value = entities.get(name) or html5.get(f"{name};")
    return escape(value, {'"': "&quot;", "'": "&apos;"}) if value else f"&amp;{name};"


def _allowed(found: re.Match[str]) -> str:
    return found[0] if found[0][0] == "&" else "\ufffd"
