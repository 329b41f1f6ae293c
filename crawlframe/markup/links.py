"""Links: the address and the relation of a link, in each of the forms that authors pass links in;
the links of an HTML page, from the fast tree; and those of the header Link (RFC 8288)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from crawlframe.errors import BadRequest

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_ATTRIBUTES = ("attrib", "attributes", "attrs")
_LINKS = ("a", "area")
# One simple selector takes less than half the time of three with the names. In SVG it matches
# xlink:href as well. MathML has no links, and SVG no <area> or <base>. (Lexbor takes ":is(a,b) *"
# for ":is(a,b) > *". Each selector in :not() is a walk up from each link.)
_IN_MATH = "math:not(svg *) :not(mtext *)"
FOREIGN = f"{_IN_MATH}, svg:not(math *) :not(foreignObject *,desc *,title *)"  # no HTML
ADDRESSED = f"[href]:not({_IN_MATH}, svg :is(area,base))"
# A link of the header Link, and one of its parameters.
_TARGET = re.compile(r"[\s,]*<([^>]*)>")
_PARAMETER = re.compile(
    r'\s*;\s*([^\s=;,]*)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|([^;,]*)))?\s*', re.DOTALL
)


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


def link_nodes(page: Any) -> list[LexborNode]:
    """Returns the elements of a Response ``<a>`` and ``<area>`` with an address, in order; with
    ``obey_nofollow``, without those with rel=nofollow. The base of relative links is known then."""
    tree: LexborHTMLParser = page.tree
    # Most pages have neither SVG nor MathML. Two short selectors take less than the long selector,
    # and a tenth of the time of a regular expression on the page.
    selector = "[href]" if tree.css_first("svg,math") is None else ADDRESSED
    nodes = [(node.tag, node) for node in tree.css(selector)]
    if "base_url" not in page.__dict__:  # to look for it is a walk through the page
        base = next((node for tag, node in nodes if tag == "base"), None)
        page.__dict__["base_url"] = page._base(base)
    if page.nofollow is not None:
        nodes = page.nofollow.kept([one for one in nodes if one[0] in _LINKS])
    return [node for tag, node in nodes if tag in _LINKS]


def links_of(page: Any) -> list[str]:
    """Returns the URLs of all http(s) links of a Response, in order, each once."""
    if page.kind != "html":
        return []
    attributes = [node.attrs for node in link_nodes(page)]
    hrefs = dict.fromkeys([each.get("href") or address_in(each) or "" for each in attributes])
    urls = dict.fromkeys(page._join_all([*hrefs]))
    urls.pop(None, None)
    return [*urls]


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
