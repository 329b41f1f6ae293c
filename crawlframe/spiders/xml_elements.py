"""XmlElements: the elements of some names in a large XML file, read one after another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

# Characters without the end of such an element. What is between them is in memory, and takes some
# thirty times as much there.
MAX_BETWEEN = 16 << 20


class XmlElements:
    """The outermost elements with one of ``tags``, in their order, in bounded memory: each is
    emptied when the next one is asked for, and those before it are dropped.

    ``tags`` are as lxml writes them: ``{namespace}name``, and ``{*}name`` for any namespace or
    none. Nothing is loaded for entities. A file with more than MAX_BETWEEN characters inside of
    one element, or between two, is read up to there. Errors of syntax are passed over as far
    as possible; ``problem`` is the first of them, "" if there is none, and ``root`` the name of the
    outermost element. Both are known after the last element."""

    def __init__(self, text: Iterable[str], tags: Iterable[str]) -> None:
        self.problem = ""
        self.root = ""
        self._text = text
        self._tags = tuple(tags)

    def __iter__(self) -> Iterator[Any]:
        from lxml.etree import QName, XMLPullParser, XMLSyntaxError

        parser = XMLPullParser(
            events=("end",),
            tag=self._tags,
            encoding="utf-8",
            recover=True,
            resolve_entities=False,
            no_network=True,
        )
        try:
            between = 0
            for piece in self._text:
                parser.feed(piece.encode("utf-8", "replace"))
                between += len(piece)
                for element in self._ended(parser):
                    between = 0
                    yield element
                if between > MAX_BETWEEN:
                    name = self._tags[0].rpartition("}")[2]
                    self.problem = f"more than {between:,} characters without the end of a {name}"
                    break
            root = parser.close()
            self.root = "" if root is None else QName(root).localname
            yield from self._ended(parser)  # where the file is cut off
        except XMLSyntaxError as error:
            self.problem = str(error)
        if len(parser.feed_error_log) and not self.problem:
            first = parser.feed_error_log[0]
            self.problem = f"line {first.line}: {first.message}"

    def _ended(self, parser: Any) -> Iterator[Any]:
        for _, element in parser.read_events():
            if next(element.iterancestors(*self._tags), None) is None:
                yield element
                _drop(element)


def _drop(element: Any) -> None:
    """Frees an element and what is before it; the parser is still behind it."""
    element.clear(keep_tail=True)
    parent = element.getparent()
    if parent is not None:
        while element.getprevious() is not None:
            del parent[0]
