"""Parsers: HTML and XML trees of pages, each parsed within a limit of CPU time.

HTML parsers take quadratic time in the depth of open elements, in the attributes of a tag, in
distinct names, in formatting elements that are left open ... Pages that are large enough for it are
therefore parsed in a thread, for which the caller waits while it has used less than the limit. A
thread that has used it up cannot be stopped: its page is refused, and its process should be
replaced (see ``stuck``)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeVar

from crawlframe.errors import TooComplex, TooDeep

if TYPE_CHECKING:
    from parsel import Selector
    from selectolax.lexbor import LexborHTMLParser

MAX_PARSE = 0.5  # seconds of CPU; real pages of 10 MB take some 0.1 s
MAX_DEPTH = 4_000  # open elements in Lexbor, whose selectors take quadratic time in depth
MAX_SELECTOR_DEPTH = 2_047  # of libxml2
MAX_TAGS = 1_000_000  # including end tags and comments; each takes some 200 bytes of memory
# Limits of pages for parsers in Python, which take some 40 microseconds an element. The article's
# parser computes in a thread.
MAX_SLOW = {"soup": 40_000, "article": 20_000}  # elements
MAX_SLOW_BYTES = 8 << 20
MAX_SLOW_ATTRIBUTES = 2_000  # of an element

_SMALL_PAGE = 8 << 10  # bytes, too few to take long
_MEDIUM, _TAGS = 64 << 10, 1_500  # bytes and tags, too few to take long together
_LARGE_PAGE = 2 << 20  # bytes, too few for too many tags
# A page that takes less CPU has less than some 10,000 elements, where depth does no harm.
_QUICK = 0.0015  # seconds
_MANY_TAGS = 10_000  # tags
_TOO_DEEP = " > ".join("*" * (MAX_DEPTH + 1))

_Tree = TypeVar("_Tree")


def html_tree(html: bytes, url: str, limit: float = MAX_PARSE) -> LexborHTMLParser:
    """Returns the tree of a page in UTF-8, as browsers build it. Raises TooDeep, and TooComplex if
    parsing takes more than ``limit`` seconds of CPU."""
    return _limited(partial(_lexbor, html, url), html, url, limit)


def html_root(text: str, url: str, limit: float = MAX_PARSE) -> Any:
    """Returns libxml2's root of a page. Raises as ``html_tree``."""
    from lxml.html import HTMLParser  # its elements have text_content, forms and so on

    html = text.encode()
    return _limited(partial(_libxml2, HTMLParser, html, url), html, url, limit)


def xml_root(text: str, url: str) -> Any:
    """Returns the root of XML, whose parser takes linear time. Raises TooDeep, and TooComplex if
    there are too many tags."""
    from lxml.etree import XMLParser

    _check_tags(xml := text.encode(), url)
    return _libxml2(partial(XMLParser, resolve_entities=False), xml, url)


def with_all_roots(selector: Selector) -> Selector:
    """Returns the selector of a page, with the content of further ``<html>`` elements at the end of
    the body of the first, as in browsers (HTML standard, 13.2.6.4.22); libxml2 puts them next to
    the root."""
    root: Any = selector.root
    others = [*root.itersiblings("html")]
    if not others:
        return selector
    body = root.find("body")
    body = root if body is None else body
    for other in others:
        for part in (other, *other.findall("body")):
            if part.text and len(body):
                body[-1].tail = (body[-1].tail or "") + part.text
            elif part.text:
                body.text = (body.text or "") + part.text
            body.extend([child for child in part if child.tag not in ("head", "body")])
    return selector


def check_slow(root: Any, size: int, parser: str, url: str) -> None:
    """Raises TooComplex when a page of ``size`` bytes, whose root libxml2 returned, is too large
    for a parser in Python ("soup", "article")."""
    if size > MAX_SLOW_BYTES:
        raise TooComplex(f"{url} has {size:,} bytes; the limit of {parser} is {MAX_SLOW_BYTES:,}")
    if (count := int(root.xpath("count(//*)"))) > (limit := MAX_SLOW[parser]):
        raise TooComplex(f"{url} has {count:,} elements; the limit of {parser} is {limit:,}")
    if root.xpath(f"boolean(//*[@*[{MAX_SLOW_ATTRIBUTES + 1}]])"):
        most = f"{MAX_SLOW_ATTRIBUTES:,}"
        raise TooComplex(f"{url}: a tag has more than {most} attributes, the limit of {parser}")


def stuck() -> bool:
    """Whether a parser of a refused page still uses the CPU."""
    _refused[:] = [thread for thread in _refused if thread.is_alive()]
    return bool(_refused)


def _lexbor(html: bytes, url: str) -> LexborHTMLParser:
    from selectolax.lexbor import LexborHTMLParser

    begun = time.thread_time()
    tree = LexborHTMLParser(html)
    if time.thread_time() - begun < _QUICK or html.count(b"<") < _MANY_TAGS:
        return tree
    if tree.css_first(_TOO_DEEP) is not None:
        raise _too_deep(url, MAX_DEPTH)
    return tree


def _libxml2(kind: Callable[..., Any], text: bytes, url: str) -> Any:
    from lxml import etree

    parser = kind(recover=True, encoding="utf-8", huge_tree=True)
    # As parsel does: libxml2 ends at a NUL, and reads no XML behind blanks.
    text = text.replace(b"\0", b"").strip() or b"<html/>"
    root = etree.fromstring(text, parser=parser, base_url=url)
    for error in parser.error_log:
        if error.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT and "depth" in error.message:
            # It drops deeper ones.
            other = 'css and xpath; see tree, and selector_tree = "browser"'
            raise _too_deep(url, MAX_SELECTOR_DEPTH, f" for {other}")
    return etree.fromstring(b"<html/>", parser=parser, base_url=url) if root is None else root


def _too_deep(url: str, limit: int, more: str = "") -> TooDeep:
    return TooDeep(f"{url} has more than {limit:,} elements inside each other{more}")


def _check_tags(text: bytes, url: str) -> None:
    if len(text) > _LARGE_PAGE and (tags := text.count(b"<")) > MAX_TAGS:
        raise TooComplex(f"{url} has {tags:,} tags; the limit is {MAX_TAGS:,}")


def _limited(parse: Callable[[], _Tree], html: bytes, url: str, limit: float) -> _Tree:
    if len(html) < _SMALL_PAGE or (len(html) < _MEDIUM and html.count(b"<") <= _TAGS):
        return parse()
    _check_tags(html, url)
    thread = _idle.pop() if _idle else _ParserThread()
    tree: _Tree = thread.result_of(parse, url, limit)
    return tree


class _ParserThread(Thread):
    """Parses one page at a time for another thread."""

    def __init__(self) -> None:
        super().__init__(name="parser", daemon=True)
        self._pages: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._trees: SimpleQueue[Any] = SimpleQueue()
        self.start()

    def run(self) -> None:
        while (parse := self._pages.get()) is not None:
            try:
                self._trees.put(parse())
            except Exception as error:
                self._trees.put(error)
            del parse  # holds a page

    def result_of(self, parse: Callable[[], Any], url: str, limit: float) -> Any:
        """The tree. Raises errors of the parser, and TooComplex."""
        end = self._cpu() + limit
        self._pages.put(parse)
        tree = None
        try:
            while tree is None:
                left = end - self._cpu()
                if left <= 0:
                    raise TooComplex(
                        f"{url} takes a parser more than {limit:g} s; see the setting max_parse"
                    )
                try:
                    tree = self._trees.get(timeout=left)
                except Empty:  # it had less than a processor
                    continue
        finally:
            if tree is None:  # whoever interrupts the wait does not stop the parser either
                self._pages.put(None)
                _refused.append(self)
                on_refusal()
            else:
                _idle.append(self)
        if isinstance(tree, Exception):
            raise tree
        return tree

    def _cpu(self) -> float:
        """Seconds of CPU that the thread has used; elsewhere than on Linux, of the clock."""
        if not hasattr(time, "pthread_getcpuclockid") or self.ident is None:
            return time.monotonic()
        return time.clock_gettime(time.pthread_getcpuclockid(self.ident))


_idle: list[_ParserThread] = []
_refused: list[_ParserThread] = []
# Called when a page is refused whose parser still runs, by the thread that waited for it.
on_refusal: Callable[[], object] = lambda: None  # noqa: E731
# Threads stay behind in the parent.
os.register_at_fork(after_in_child=_idle.clear)
os.register_at_fork(after_in_child=_refused.clear)
