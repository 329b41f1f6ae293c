"""The address and the relation of a link, in each of the forms in which authors have links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from crawlframe.errors import BadRequest

_ATTRIBUTES = ("attrib", "attributes", "attrs")


class Link(NamedTuple):
    """A link of a page. ``url`` is absolute and normalised, without fragment; ``text`` is that of
    the element; ``nofollow``: it has ``rel="nofollow"``."""

    url: str
    text: str = ""
    nofollow: bool = False


def href_of(link: Any) -> str:
    """Returns the address in a string, Link, parsel selector, selectolax node or BeautifulSoup tag.
    Raises BadRequest if there is none."""
    if isinstance(link, str):
        return link
    if isinstance(link, Link):
        return link.url
    if isinstance(link, list):  # a SelectorList too
        raise BadRequest("follow takes one link; use follow_all for a list")
    root = getattr(link, "root", None)  # of a selector: an element, or the text of an attribute
    if isinstance(root, str):
        return root
    for name in _ATTRIBUTES:
        attributes = getattr(link, name, None)
        if isinstance(attributes, Mapping):
            address = attributes.get("href") or attributes.get("src")
            if isinstance(address, str):
                return address
            raise BadRequest(f"{link!r} has no href")
    raise BadRequest(f"a link must be a URL, selector, node or tag, not {type(link).__name__}")


def is_nofollow(link: Any) -> bool:
    """Returns whether it is an element, or a Link, with ``rel="nofollow"``; False for others."""
    if isinstance(link, Link):
        return link.nofollow
    for name in _ATTRIBUTES:
        attributes = getattr(link, name, None)
        if isinstance(attributes, Mapping):
            rel = attributes.get("rel") or ""  # BeautifulSoup has a list
            words = rel.split() if isinstance(rel, str) else rel
            return "nofollow" in map(str.lower, words)
    return False


class Nofollow:
    """The links of one page that are not followed because of their ``rel``. ``refused`` is called
    for each address once."""

    def __init__(self, refused: Callable[[], None]) -> None:
        self._refused = refused
        self._seen: set[str] = set()

    def refuses(self, link: Any) -> bool:
        """Returns whether a link is not followed, and counts it."""
        if not is_nofollow(link):
            return False
        try:
            self._count(href_of(link))
        except BadRequest:  # it leads nowhere
            pass
        return True

    def kept(self, nodes: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Returns the (name, node) that are followed. An address counts only if no other node with
        it is followed."""
        kept = [(name, node) for name, node in nodes if not is_nofollow(node)]
        addresses = {node.attributes["href"] for _, node in nodes}
        for address in addresses.difference(node.attributes["href"] for _, node in kept):
            if address:
                self._count(address)
        return kept

    def _count(self, address: str) -> None:
        if address not in self._seen:
            self._seen.add(address)
            self._refused()
