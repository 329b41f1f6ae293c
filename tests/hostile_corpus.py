"""Corpus: pages of any size that are made to hold up their parser."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

HTML, XML, JSON = "text/html; charset=utf-8", "application/xml", "application/json"
LIMIT = 1_000  # distinct parts before a page repeats itself


class Hostile(NamedTuple):
    name: str
    content_type: str
    make: Callable[[int], str]  # about this many bytes

    def body(self, size: int) -> bytes:
        return self.make(size).encode()


def _again(unit: str, size: int, before: str = "", after: str = "") -> str:
    """``unit`` repeated."""
    return before + unit * max(1, (size - len(before) - len(after)) // len(unit)) + after


def _counted(unit: str, size: int) -> str:
    """``unit`` repeated, with a number for each ``%x``."""
    parts: list[str] = []
    length = 0
    while length < size:
        part = unit.replace("%x", f"{len(parts):x}")
        parts.append(part)
        length += len(part)
    return "".join(parts)


def _html(name: str, unit: str, before: str = "", after: str = "") -> Hostile:
    return Hostile(name, HTML, lambda size: _again(unit, size, before, after))


def _unlike(name: str, unit: str, before: str = "", after: str = "") -> Hostile:
    return Hostile(name, HTML, lambda size: before + _counted(unit, size) + after)


def _half(name: str, first: str, second: str, before: str = "") -> Hostile:
    return Hostile(
        name, HTML, lambda size: before + _counted(first, size // 2) + _again(second, size // 2)
    )


def _lost(size: int) -> str:
    """Many formatting elements left open, all different, which are recreated again and again."""
    again = "<svg><foreignobject><i></foreignobject></svg>"
    return _again(again, size, "<p>" + "".join(f"<b a={n}>" for n in range(1_980)) + "</p>")


def _entities(use: str) -> str:
    """Ten entities, each ten times the size of its predecessor."""
    names = "abcdefghij"
    declared = "".join(
        f'<!ENTITY {name} "{f"&{names[i - 1]};" * 10 if i else "lol"}">'
        for i, name in enumerate(names)
    )
    return f"<!DOCTYPE r [{declared}]>{use}"


CORPUS = (
    # Nesting
    _html("nested div", "<div>"),
    _html("nested div, closed", "<div>", after="</div>" * LIMIT),
    _html("nested span", "<span>"),
    _html("nested lists", "<ul><li>"),
    _html("nested tables", "<table><tr><td>"),
    _html("nested svg", "<g>", "<svg>"),
    _html("nested math", "<math><mi>"),
    _html("nested template", "<template>"),
    _html("nested ruby", "<rt>"),
    _half("end tags that close nothing", "<div>", "</p>"),
    # Formatting elements
    _html("b left open", "<b>"),
    _half("b left open in paragraphs", "<b %x>", "<p>x", "<p>"),
    _unlike("b left open, each another", "<b id=%x><p>x</p>"),
    Hostile("b left open, made again in svg", HTML, _lost),
    _html("b around div", "<b><div></b>"),
    _html("h1 around i", "<h1><i>"),
    _half("a in nested div", "<div>", "<a>", "<a>"),
    _html("text in tables", "x<b>", "<table>"),
    # Attributes and names
    _unlike("attributes", "a%x ", "<p ", ">"),
    _unlike("attributes with values", 'a%x="x" ', "<p ", ">"),
    _html("one attribute often", "a=1 ", "<p ", ">"),
    _html("a thousand attributes in each tag", "<p " + _counted("a%x ", 4000) + ">"),
    _unlike("attributes of body", "<body a%x>"),
    _unlike("other names of attributes", "<p a%x>"),
    _unlike("other names of elements", "<x%x>"),
    _html("blanks in tags", " " * 30_000, "<div a", ">"),
    _html("slashes in tags", "/" * 30_000, "<meta ", ">"),
    _html("long link", "a=1&", '<a href="http://example.com/?', '">x</a>'),
    # Many of one kind
    _html("options", "<option>x</option>", "<select>", "</select>"),
    _html("forms", "<form><input>"),
    _unlike("links", '<a href="/p/%x">x</a> '),
    _html("paragraphs", "<p>x"),
    _html("comments", "<!-- x -->"),
    # Text
    _html("an open comment", "<!--"),
    _html("plaintext", "<a href=x>", "<plaintext>"),
    _html("entities", "&amp;"),
    _html("less-than signs", "<"),
    _html("words", "word "),
    # Declarations, XML, JSON
    Hostile(
        "charset=punycode",
        "text/html; charset=punycode",
        lambda size: _again("q3a", size, "<p>-"),
    ),
    Hostile("nested XML", XML, lambda size: _counted('<d xmlns:a%x="u">', size)),
    Hostile("XML entities", XML, lambda size: _entities(_again("&j;", size, "<r>", "</r>"))),
    Hostile("XML entities in attributes", XML,
            lambda size: _entities(_again("&j;", size, '<r x="', '"/>'))),
    Hostile("nested JSON", JSON, lambda size: "[" * (size // 2) + "]" * (size // 2)),
)  # fmt: skip
