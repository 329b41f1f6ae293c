"""XmlElements: the elements of some names in a large XML file, read one after another."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from crawlframe.spiders.xml_repair import CLOSERS, NAME, TAG, repaired

# Characters of such an element, and without one. In memory, an element takes thirty times as much.
MAX_BETWEEN = 16 << 20
MAX_TAG = 1 << 20  # characters of a tag
MAX_DEPTH = 64  # open elements whose names are known
MAX_TAGS = 200_000  # of an element that is repaired

_DOCTYPE = r"<!DOCTYPE\s+(?P<type>[^\s\[>]*)[^\[>]*(?:\[(?P<subset>[^\]]{0,4096}+)\]\s*)?>"
_OPENERS = r"<!--|<!\[CDATA\[|<\?"
_OUTSIDE = re.compile(rf"(?P<opener>{_OPENERS})|{TAG.pattern}|(?i:{_DOCTYPE})", re.S)
_ENTITY = re.compile(r"<!ENTITY\s+([\w.-]+)\s+[\"']([^\"'<&%]{0,100})[\"']\s*>")
_XMLNS = re.compile(r"\s(xmlns(?::[^\s=]+)?)\s*=\s*(\"[^\"]+\"|'[^']+'|\"\"|'')")


class XmlElements:
    """The outermost elements with one of ``tags``, in their order, in bounded memory.

    ``tags`` are as lxml writes them: ``{namespace}name``, and ``{*}name`` for any namespace or
    none. Each element is cut out of the text and parsed by itself, strictly; damaged markup in one
    is text as it is written (xml_repair), and does not change another. An element without an end,
    or with more than MAX_BETWEEN characters, is left out; with as many between two, the file ends.
    Nothing is loaded for entities. ``problem`` is the first damage, "" if there is none, and
    ``root`` the name of the outermost element. Both are known after the last element."""

    def __init__(self, text: Iterable[str], tags: Iterable[str]) -> None:
        from lxml.etree import XMLParser

        self.problem = ""
        self.root = ""
        self._tags = tuple(tags)
        names = "|".join(re.escape(tag.rpartition("}")[2]) for tag in self._tags)
        tag = TAG.pattern.replace(NAME, rf"(?:[\w.-]+:)?(?:{names})", 1)
        self._inside = re.compile(rf"(?P<opener>{_OPENERS})|{tag}")
        self._name = re.compile(rf"(?:[\w.-]+:)?(?:{names})")
        self._pieces = text
        self._text, self._base = "", 0  # the text that is not done with, and its place in the file
        self._at = self._last = 0  # places in the file: of the next tag, and of the last element
        self._begun: list[tuple[str, int]] = []  # elements that have not ended
        self._done: list[tuple[int, int]] = []
        self._opened, self._searched = "", dict.fromkeys(CLOSERS.values(), 0)
        self._parser = XMLParser(
            encoding="utf-8", resolve_entities=False, no_network=True, huge_tree=True,
            remove_comments=True, remove_pis=True,
        )  # fmt: skip
        self._error = ""
        self._entities: dict[str, str] = {}
        self._around: list[tuple[str, dict[str, str]]] = []  # open elements and their namespaces

    def __iter__(self) -> Iterator[Any]:
        for sources in self._sources():
            together = self._parsed("".join(sources))  # in a fifth of the time
            for whole in map(self._sound, sources) if together is None else (together,):
                for one in whole.iter(*self._tags) if whole is not None else ():
                    if next(one.iterancestors(*self._tags), None) is None:
                        yield one
        if self._around:
            self._note(f"the end of {self._around[-1][0]!r} is missing")

    def _sound(self, source: str) -> Any:
        """As ``_parsed``, after repair if that is necessary."""
        whole = self._parsed(source)
        if whole is None and source.count("<") <= MAX_TAGS:
            if not any(f"'{name}' not defined" in self._error for name in self._entities):
                self._note(f"an element is damaged: {self._error}")
            text, prefixes = repaired(source, self._entities)
            whole = self._parsed(text, prefixes)
        return whole

    def _parsed(self, source: str, prefixes: Iterable[str] = ()) -> Any:
        """An element around those in the source; None if it is not sound, and ``_error`` is why."""
        from lxml.etree import XMLSyntaxError, fromstring

        spaces = {f"xmlns:{one}": f'"{one}"' for one in prefixes}
        for _, own in self._around:
            spaces |= own
        declared = "".join(f" {key}={value}" for key, value in spaces.items())
        try:
            whole = f"<all{declared}>{source}</all>"
            return fromstring(whole.encode("utf-8", "replace"), self._parser)
        except XMLSyntaxError as error:
            self._error = error.msg or ""
            return None

    def _note(self, problem: str) -> None:
        self.problem = self.problem or problem

    def _sources(self) -> Iterator[list[str]]:
        """The texts of elements, of as many as were read at a time."""
        waiting, size, since = list[str](), 0, 0
        for piece in chain(self._pieces, (None,)):
            waiting.append(piece or "")
            size += len(waiting[-1])
            if piece is not None and "<" not in piece and size < MAX_TAG:  # no element ends in it
                continue
            keep = min([self._at, *(place for _, place in self._begun[:1])])
            self._text = self._text[keep - self._base :] + "".join(waiting)
            waiting, size, self._base = [], 0, keep
            yield from filter(None, self._scan(ended=piece is None))
            end = self._base + len(self._text)
            if self._begun and (end - self._begun[0][1] > MAX_BETWEEN or piece is None):
                self._note(f"an element {self._begun[0][0]!r} has no end")
                self._begun, since = [], self._at
                yield self._ended()
            since = max(since, self._last)
            if self._at - since > MAX_BETWEEN:
                name = self._tags[0].rpartition("}")[2]
                self.problem = f"more than {MAX_BETWEEN:,} characters without the end of a {name}"
                return

    def _scan(self, *, ended: bool) -> Iterator[list[str]]:
        """Reads the tags in the text: up to its last "<", whose tag may be incomplete, unless it
        has ``ended``."""
        ready: list[str] = []
        last, end = self._text.rfind("<"), len(self._text)
        last = self._base + (end if ended or end - last > MAX_TAG else last)
        while not self._opened or self._close(ended=ended):
            pattern = self._inside if self._begun else _OUTSIDE
            match = pattern.search(self._text, self._at - self._base, last - self._base)
            if match is None:
                self._at = max(self._at, last)
                break
            start, self._at = self._base + match.start(), self._base + match.end()
            self._opened, name = match["opener"] or "", match["name"]
            if self._begun or (name and self._name.fullmatch(name)):
                self.root = self.root or name.rpartition(":")[2]
                self._step(match, start)
                if not self._begun:
                    ready += self._ended()
            elif not self._opened:
                yield ready
                ready = []
                self._enter(match)
        yield ready

    def _ended(self) -> list[str]:
        """The texts of the elements that have ended."""
        done, self._done = self._done, []
        return [self._text[start - self._base : end - self._base] for start, end in done]

    def _close(self, *, ended: bool) -> bool:
        """Passes over a comment or the like; False if its end is not there yet. Without an end, the
        rest is read as if the comment had not started."""
        closer, size = CLOSERS[self._opened], len(self._text)
        from_ = max(self._at, self._searched[closer]) - self._base
        if (place := self._text.find(closer, from_)) >= 0:
            self._at = self._base + place + len(closer)
        else:
            self._searched[closer] = max(self._searched[closer], self._base + size - 2)
            if not ended and self._base + size - self._at <= MAX_BETWEEN:
                return False
        self._opened = ""
        return True

    def _step(self, tag: re.Match[str], start: int) -> None:
        """Starts or ends an element; ``_done`` has elements that are in no other that has ended."""
        name = tag["name"]
        if not name:
            return
        if tag["end"]:
            if name not in (each for each, _ in self._begun):
                return
            while (begun := self._begun.pop())[0] != name:
                pass
            start = begun[1]
        elif not tag["empty"]:
            if len(self._begun) < MAX_DEPTH:
                self._begun.append((name, start))
            return
        while self._done and self._done[-1][0] > start:
            self._done.pop()
        self._done.append((start, self._at))
        self._last = self._at

    def _enter(self, tag: re.Match[str]) -> None:
        """Passes a tag around the elements, or the document type."""
        name = tag["name"]
        if name is None:
            self._entities |= _ENTITY.findall(tag["subset"] or "")[:100]
            if tag["type"].lower() == "html":
                self.root = "html"
            return
        self.root = self.root or name.rpartition(":")[2]
        if tag["end"]:
            places = (n for n in range(len(self._around) - 1, -1, -1) if self._around[n][0] == name)
            del self._around[next(places, len(self._around)) :]
        elif not tag["empty"] and len(self._around) < MAX_DEPTH:
            self._around.append((name, dict(_XMLNS.findall(tag["attributes"]))))
