"""The address and the relation of a link, in each of the forms that authors pass links in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from crawlframe.errors import BadRequest

_ATTRIBUTES = ("attrib", "attributes", "attrs")


class Link(NamedTuple):
    """A link of a page. ``url`` is absolute and normalised, without fragment; ``text``: of the
    element; ``nofollow``: it has ``rel="nofollow"``."""

    url: str
    text: str = ""
    nofollow: bool = False


def address_in(attributes: Any) -> str | None:
    """Returns the ``href`` of an element, in SVG the older ``xlink:href``; "" if it has no value,
    which leads to the base URL; None if there is none. ``attributes``: of any parser."""
    for name in ("href", "xlink:href"):
        if name in attributes:
            return attributes[name] or ""
    return None


def href_of(link: Any) -> str:
    """Returns the address in a string, Link, parsel selector, selectolax node or BeautifulSoup tag.
    Raises BadRequest if there is none."""
    if isinstance(link, str):
        return link
    if isinstance(link, Link):
        return link.url
    if isinstance(link, list):  # a SelectorList too
        raise BadRequest("follow takes one link; use follow_all for a list")
    if isinstance(root := getattr(link, "root", None), str):  # the text of an attribute
        return root
    attributes = _attributes_of(link)
    if attributes is None:
        raise BadRequest(f"a link must be a URL, selector, node or tag, not {type(link).__name__}")
    address = address_in(attributes)
    if address is None:
        address = attributes.get("src") or None
    if isinstance(address, str):
        return address
    raise BadRequest(f"{link!r} has no href")


def is_nofollow(link: Any) -> bool:
    """Returns whether it is an element, or a Link, with ``rel="nofollow"``; False for others."""
    if isinstance(link, Link):
        return link.nofollow
    rel = (_attributes_of(link) or {}).get("rel") or ""  # BeautifulSoup has a list
    words = rel.split() if isinstance(rel, str) else rel
    return "nofollow" in map(str.lower, words)


def _attributes_of(link: Any) -> Mapping[str, Any] | None:
    """Attributes of a link. A selector's are read from its element: parsel copies all of them,
    which fails if one has a name that XML does not allow."""
    for element in (getattr(link, "root", None), link):
        for name in _ATTRIBUTES:
            if isinstance(found := getattr(element, name, None), Mapping):
                return found
    return None


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
        addresses = {address_in(node.attrs) or "" for _, node in nodes}
        for address in addresses.difference(address_in(node.attrs) or "" for _, node in kept):
            self._count(address)
        return kept

    def _count(self, address: str) -> None:
        if address not in self._seen:
            self._seen.add(address)
            self._refused()
