"""Labels: which links of annotated articles lie in the article's text."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crawlframe.noise.page import BLOCKS, SILENT
from crawlframe.request import Request
from crawlframe.response import Response

_WORD = re.compile(r"\w+")
NEAR = 8  # words of the block on each side of a link, that must be in the article as well
FEW = 3  # words around a link; with fewer its whole block must be a line of the article


class Page(NamedTuple):
    """An article: ``response``, and for each link with text, in order, whether it is content; None
    for those without text, which the annotation says nothing about."""

    name: str
    response: Response
    labels: list[bool | None]


def pages(data: Path) -> Iterator[Page]:
    """Yields the pages of a checkout of scrapinghub/article-extraction-benchmark, by name. Raises
    RuntimeError if it is none."""
    truth = data / "ground-truth.json"
    if not truth.exists():
        raise RuntimeError(
            f"{data} has no ground-truth.json; give a checkout of "
            "scrapinghub/article-extraction-benchmark"
        )
    for name, entry in sorted(json.loads(truth.read_text()).items()):
        body = gzip.decompress((data / "html" / f"{name}.html.gz").read_bytes())
        headers = {"Content-Type": "text/html; charset=utf-8"}
        response = Response(entry["url"], 200, headers, body, Request(entry["url"]))
        yield Page(name, response, labels(response, entry["articleBody"]))


def labels(response: Response, article: str) -> list[bool | None]:
    """Returns, for each http(s) link of a page, whether its text and what is around it in its block
    are in the article; None if it has no text."""
    lines = [_words(line) for line in article.splitlines()]
    whole = f" {' '.join(line for line in lines if line)} "
    known = set(lines)
    found: list[bool | None] = []
    for node in response.tree.css("a[href], area[href]"):
        url = response._join(node.attributes["href"] or "") if node.attributes["href"] else None
        if url is None:
            continue
        text = _words(node.text())
        if not text:
            found.append(None)
            continue
        block = node
        while block.parent is not None and (block is node or block.tag not in BLOCKS):
            block = block.parent
        before, after = _around(block, node.mem_id)
        if len(before) + len(after) >= FEW:
            near = [*before[-NEAR:], text, *after[:NEAR]]
            found.append(f" {' '.join(near)} " in whole)
        else:
            found.append(" ".join([*before, text, *after]) in known)
    return found


def _around(block, link: int) -> tuple[list[str], list[str]]:  # type: ignore[no-untyped-def]
    """The words of a block before and after a link, without those of blocks in it."""
    before: list[str] = []
    after: list[str] = []
    now = before

    def walk(node) -> None:  # type: ignore[no-untyped-def]
        nonlocal now
        child = node.first_child
        while child is not None:
            if child.mem_id == link:
                now = after
            elif child.tag == "-text":
                now.extend(_words(child.text_content or "").split())
            elif child.tag not in BLOCKS and child.tag not in SILENT:
                walk(child)
            child = child.next

    walk(block)
    return before, after


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
