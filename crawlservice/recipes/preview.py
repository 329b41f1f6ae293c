"""Preview: a fetched page as it may be shown in the admin: its text and structure, nothing that
runs, loads or leads anywhere. Elements that a recipe selects are marked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from crawlframe.recipes.extraction import MARKUP
from crawlframe.recipes.recipe import Field, Select
from crawlframe.response.response import Response

MAX_SHOWN = 1 << 20  # characters of markup
MARK = "data-cf-field"  # the names of the fields that an element is a value of
PART = "data-cf-part"  # on each part of the page that is one item

REMOVED = (
    "script", "style", "link", "meta", "base", "iframe", "frame", "frameset", "object", "embed",
    "applet", "noscript", "template", "svg", "math", "audio", "video", "source", "track", "canvas",
    "portal", "dialog", "title",
)  # fmt: skip
INERT = {
    "form": "div", "button": "span", "input": "span", "select": "span", "option": "span",
    "textarea": "span", "img": "span",
}  # fmt: skip
KEPT = frozenset({"id", "class", "colspan", "rowspan", "dir", "lang", "title", MARK, PART})

# The end of an expression that selects a text or an attribute of an element.
_ENDS = re.compile(r"\s*::(?:text|attr\([^)]*\))\s*$|/(?:/?text\(\)|@[\w:-]+)\s*$")


def mark(response: Response, each: Select | None, fields: dict[str, Field]) -> None:
    """Marks the elements that ``each`` and the fields select, in the tree of the page."""
    if response.kind not in MARKUP:
        return
    parts = [response.selector]
    if each is not None:
        parts = list(_selected(response.selector, each)) if not each.jmespath else []
        for part in parts:
            _add(part, PART, "1")
    for part in parts:
        for name, field in fields.items():
            for node in _selected(part, field):
                _add(node, MARK, name)


def shown(response: Response) -> str:
    """The markup to show; of a text file, its text. "" when it is not text, or too long."""
    from lxml import etree, html

    if response.kind not in MARKUP:
        return "" if response.kind == "binary" else _as_text(response.text[:MAX_SHOWN])
    root = response.selector.root
    if not isinstance(root, etree._Element) or _local(root) in REMOVED:
        return ""
    for element in [*root.iter()]:
        if not isinstance(element.tag, str) or _local(element) in REMOVED:
            _drop(element)
    for element in root.iter():
        name = _local(element)
        if name in INERT:
            words = element.get("alt") or element.get("value") or element.get("placeholder")
            if words and not element.text:
                element.text = words
            element.tag = INERT[name]
            element.set("class", f"{element.get('class', '')} cf-was-{name}".strip())
        for attribute in element.attrib:
            if attribute not in KEPT:
                del element.attrib[attribute]
    text: str = html.tostring(root, encoding="unicode", doctype="<!doctype html>")
    return text if len(text) <= MAX_SHOWN else ""


def _selected(node: Any, part: Any) -> Iterable[Any]:
    if part.css:
        return node.css(_ENDS.sub("", part.css) or "*")  # type: ignore[no-any-return]
    if part.xpath:
        try:
            return node.xpath(_ENDS.sub("", part.xpath) or ".")  # type: ignore[no-any-return]
        except ValueError:  # the rest is no expression; the whole has been evaluated
            return ()
    return ()


def _add(node: Any, attribute: str, word: str) -> None:
    element = node.root
    if not hasattr(element, "attrib"):
        return
    words = element.get(attribute, "").split()
    if word not in words:
        element.set(attribute, " ".join([*words, word]))


def _drop(element: Any) -> None:
    parent = element.getparent()
    if parent is None:
        return
    before = element.getprevious()
    if element.tail:
        if before is not None:
            before.tail = (before.tail or "") + element.tail
        else:
            parent.text = (parent.text or "") + element.tail
    parent.remove(element)


def _local(element: Any) -> str:
    return str(element.tag).rpartition("}")[2].lower()


def _as_text(text: str) -> str:
    from html import escape

    return f"<!doctype html><pre>{escape(text)}</pre>"
