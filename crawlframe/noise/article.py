"""The article of a page: the running text, and the elements that hold most of it."""

from __future__ import annotations

import re
from collections import Counter

from crawlframe.noise.page import PageLinks, TextPlace

TEXTS = "p,div,td,li,article,section,blockquote,pre,dd,h1,h2,h3,h4,h5,h6"
MIN_CHARS = 80  # characters of a piece of running text
APART_PARTS = (0.5, 0.1)  # of the running text, from which on an element is not apart from it
MIN_SHARE = 0.1  # of the running text that is the article's
MAIN = 0.7  # of the running text that is below the main element

# Words in ids and classes of elements around other content, and around the article.
APART = re.compile(
    r"(?:^|[\s_-])(?:nav|menu|foot|header|masthead|side|relat|recommend|share|sharing|social|"
    r"comment|disqus|promo|advert|ad|ads|sponsor|tag|byline|author|bio|meta|newsletter|subscri|"
    r"widget|bread|crumb|popular|trend|latest|most|more|also|next|prev|pag|caption|credit|tool|"
    r"banner|cookie|consent|login|search|copyright|legal|topic|categor|outbrain|taboola|teaser|"
    r"card|rail|carousel|gallery|list|feed|reply|discuss|module|related|links|footer)"
)
ARTICLE = re.compile(r"article|body|content|entry|post|story|text|paragraph|main")
_APART_TAGS = frozenset(("aside", "button", "footer", "form", "header", "nav", "figure"))


def sign_of(place: TextPlace) -> int:
    """Returns -1 for an element that is apart from the article by its tag or names, 1 for names of
    articles, 0 for others."""
    tag = place.tag
    if tag in _APART_TAGS:
        return -1
    if tag in ("body", "html"):
        return 0
    names = place.names
    if not names:
        return int(tag in ("article", "main"))
    if ARTICLE.search(names):
        return 1
    return -1 if APART.search(names) else 0


class RunningText:
    """The article of a page, as far as running text shows it. ``total``: characters of its running
    text; ``main``: the lowest element that holds most of them, None if there are none; ``first``
    and ``last``: positions, in the order of the page, of its first and last piece."""

    def __init__(self, page: PageLinks) -> None:
        self.total = 0
        self.main: TextPlace | None = None
        self.order: dict[int, int] = {}
        self._apart: dict[int, int] = {}
        # The pieces of running text: position, element, characters.
        texts = []
        for position, node in enumerate(page.tree.css(TEXTS)):
            self.order[node.mem_id] = position
            text = node.text() if node.tag == "p" else node.text(deep=False)
            if len(text) >= MIN_CHARS and len(text := " ".join(text.split())) >= MIN_CHARS:
                texts.append((position, page.place_of(node), len(text)))
        for _, place, size in texts:
            _add(place, size)
        whole = sum(size for _, _, size in texts)
        # An element with much of the text is not apart from it, whatever its names are. If hardly
        # any text is left, the article is in several of them.
        for part in APART_PARTS:
            self._most = part * whole
            self._apart.clear()
            self.texts = [text for text in texts if self.apart(text[1]) >= 0]
            self.total = sum(size for _, _, size in self.texts)
            if self.total >= MIN_SHARE * whole:
                break
        for _, place, size in texts:
            if self.apart(place) < 0:
                _add(place, -size)
        self.pieces = Counter(id(place.parent) for _, place, _ in self.texts)
        self._find_main()

    def apart(self, place: TextPlace) -> int:
        """Returns how many elements above this one, with it, are apart from the article, as a
        negative number; if there are none, how many have names of articles."""
        known, above = self._apart, []
        at: TextPlace | None = place
        while at is not None and id(at) not in known:
            above.append(at)
            at = at.parent
        found = known[id(at)] if at is not None else 0
        for one in reversed(above):
            sign = sign_of(one)
            if sign < 0 and one.whole < self._most:
                found = min(found, 0) - 1
            elif sign > 0 and found >= 0:
                found += 1
            known[id(one)] = found
        return found

    def _find_main(self) -> None:
        least = MAIN * self.total
        for _, place, _ in self.texts:
            at: TextPlace | None = place
            while at is not None and at.mass < least:
                at = at.parent
            if at is not None and (self.main is None or at.depth > self.main.depth):
                self.main = at
        self.first = self.last = -1
        for position, place, _ in self.texts:
            if self.main is not None and is_below(place, self.main):
                self.first = position if self.first < 0 else self.first
                self.last = position


def is_below(place: TextPlace, other: TextPlace) -> bool:
    """Returns whether an element is ``other``, or below it."""
    at: TextPlace | None = place
    while at is not None and at.depth >= other.depth:
        if at is other:
            return True
        at = at.parent
    return False


def _add(place: TextPlace, size: int) -> None:
    """Adds to the running text of an element and its ancestors."""
    at: TextPlace | None = place
    while at is not None:
        at.mass += size
        at.whole = max(at.whole, at.mass)
        at = at.parent
