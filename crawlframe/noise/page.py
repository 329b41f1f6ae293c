"""The links of a page with their blocks: the input of every filter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from crawlframe.base.urls import host_of

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# Elements that end a line of text, so that their content is a block of its own.
_BLOCKS = (
    "address article aside blockquote body button caption center colgroup dd details dialog dir "
    "div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr html li "
    "listing main menu nav ol p plaintext pre search section summary table tbody td tfoot th thead "
    "tr ul xmp"
)
BLOCKS = frozenset(_BLOCKS.split())
# Their text is not shown, or is not text of the page.
SILENT = frozenset(("noscript", "script", "style", "template", "-comment", "svg", "select"))


class TextPlace:
    """An element above a link or a text. ``mass``:
    characters of the article's running text below it; ``whole``: of all running text."""

    __slots__ = ("depth", "mass", "node", "parent", "tag", "whole")

    def __init__(self, node: LexborNode, parent: TextPlace | None) -> None:
        self.node, self.parent = node, parent
        self.tag: str = node.tag or ""
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.mass = self.whole = 0

    @property
    def names(self) -> str:
        """The id and classes, in lower case; "" if there are none."""
        attributes = self.node.attributes
        own, classes = attributes.get("id"), attributes.get("class")
        return f"{own or ''} {classes or ''}".lower() if own or classes else ""


class TextBlock:
    """A piece of a page without blocks in it. ``chars`` of its text are outside of links and
    ``link_chars`` in its ``links``; white space counts as one character. ``place`` is its
    element."""

    __slots__ = ("chars", "link_chars", "links", "place")

    def __init__(self, place: TextPlace) -> None:
        self.place = place
        self.chars = self.link_chars = self.links = 0

    @property
    def density(self) -> float:
        """The part of the text that is in links; 0.0 if there is no text."""
        total = self.chars + self.link_chars
        return self.link_chars / total if total else 0.0


class Anchor(NamedTuple):
    """A link of a page. ``url``: absolute and normalised; ``place``: the element that it is in."""

    url: str
    place: TextPlace


class PageLinks:
    """The links of a page. ``url`` is the page's own, ``anchors`` are in the order of the page: one
    for each element, so that a URL can be there several times.

    ``tree`` must stay unchanged while the object is used."""

    def __init__(
        self, url: str, tree: LexborHTMLParser, links: Iterable[tuple[str, LexborNode]]
    ) -> None:
        self.url, self.tree = url, tree
        self.host = host_of(url)
        self._places: dict[int, TextPlace] = {}
        self.anchors = [Anchor(target, self.place_of(node.parent)) for target, node in links]

    def place_of(self, node: LexborNode | None) -> TextPlace:
        """Returns the place of an element."""
        places, above = self._places, []
        while node is not None and (number := node.mem_id) not in places:
            above.append((number, node))
            node = node.parent
        place = places[node.mem_id] if node is not None else None
        for number, one in reversed(above):
            place = places[number] = TextPlace(one, place)
        assert place is not None  # a link is in a document
        return place

    def blocks(self, names: frozenset[str] = BLOCKS) -> list[TextBlock]:
        """Returns the block of each anchor, where elements of these names are blocks."""
        found: dict[int, TextBlock] = {}
        blocks = []
        for anchor in self.anchors:
            place = anchor.place
            while place.tag not in names and place.parent is not None:
                place = place.parent
            block = found.get(id(place))
            if block is None:
                block = found[id(place)] = TextBlock(place)
                _measure(place.node, block, names)
            blocks.append(block)
        return blocks


def _measure(node: LexborNode, block: TextBlock, names: frozenset[str]) -> None:
    """Count the text of an element that is not in blocks below it."""
    words: list[str] = []
    todo = [node.first_child]
    while todo:
        child = todo.pop()
        while child is not None:
            tag = child.tag
            if tag == "-text":
                words += (child.text_content or "").split()
            elif tag == "a" and child.attrs.get("href") is not None:
                # The content of a link is its text, blocks too.
                text = child.text().split()
                block.link_chars += sum(map(len, text)) + len(text)
                block.links += 1
            elif tag not in names and tag not in SILENT:
                below = child.first_child
                if below is not None:
                    todo.append(child.next)
                    child = below
                    continue
            child = child.next
    block.chars = sum(map(len, words)) + len(words)
