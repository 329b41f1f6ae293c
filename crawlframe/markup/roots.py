"""Roots: elements behind ``</html>``, which libxml2 puts next to the root, where a browser has
them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parsel import Selector


def joined(selector: Selector) -> Selector:
    """Returns the selector of a page, with the content of further ``<html>`` elements moved to the
    end of the body of the first, where Lexbor and browsers put it (HTML standard, 13.2.6.4.22)."""
    root: Any = selector.root
    others = [*root.itersiblings("html")]
    if not others:
        return selector
    body = root.find("body")
    body = root if body is None else body
    for other in others:
        for part in (other, *other.findall("body")):
            _add_text(body, part.text)
            body.extend([child for child in part if child.tag not in ("head", "body")])
    return selector


def _add_text(body: Any, text: str | None) -> None:
    """Adds a text behind the last element."""
    if text and len(body):
        body[-1].tail = (body[-1].tail or "") + text
    elif text:
        body.text = (body.text or "") + text
