"""Extraction: the article of a page by trafilatura (the extra ``text``)."""

from __future__ import annotations

import json
import logging
import re
from copy import deepcopy
from datetime import date, datetime
from typing import Any

import trafilatura
from htmldate.extractors import try_date_expr
from htmldate.validators import reset_validator_caches
from lxml.etree import strip_tags
from lxml.html import document_fromstring
from trafilatura import utils
from trafilatura.xml import xmltotxt

from crawlframe.errors import TooComplex, TooDeep
from crawlframe.markup.structured_data import decoded_block
from crawlframe.text.article import Extracted

# These libraries would log each page that has no article.
for _library in ("trafilatura", "htmldate", "courlan"):
    if logging.getLogger(_library).level == logging.NOTSET:
        logging.getLogger(_library).setLevel(logging.CRITICAL)


MAX_CONTENT = 4_000  # characters of a <meta>
MAX_JSON = 256 << 10  # characters of a block of JSON; longer ones hold no description of an article

_DAY = (
    r"\d{4} ?[-/.年] ?\d{1,2} ?[-/.月] ?\d{1,2} ?日?"
    r"|\d{1,2}(?:st|nd|rd|th)? [A-Z][a-z]{2,8},? \d{4}"
    r"|[A-Z][a-z]{2,8} \d{1,2}(?:st|nd|rd|th)?,? \d{4}"
)
_PUBLISHED = re.compile(
    rf"(?:[Pp]ublished|[Pp]osted|PUBLISHED|POSTED|公開|掲載|投稿|配信|发布|發布|发表)[日時于]{{0,2}}"
    rf"(?: on)?[\s:：|]{{0,3}}({_DAY})"
)
_ALONE = re.compile(
    r"\d{4} ?年 ?\d{1,2} ?月 ?\d{1,2} ?日(?: ?[(（]\w[)）])?(?: ?\d{1,2}[:時]\d{2}分?)?"
)

# Regular expressions of trafilatura take quadratic time for these, or worse.
_BACKSLASHES = re.compile(r"\\{8,}+")


def extract(html: str, url: str, latest: date) -> Extracted:
    """The article of a page, or an empty one. ``latest``: the last day on which it may have been
    published. The result depends on nothing else. Raises TooDeep and TooComplex.

    The caller has checked that the page is small enough; nothing is fetched."""
    try:
        tree = utils.load_html(_BACKSLASHES.sub(r"\\\\", html))
        if tree is None:
            return Extracted()
        if tree.tag != "html":  # trafilatura removes some elements, and fails at a root
            whole = document_fromstring("<html><body></body></html>")
            whole.body.append(tree)
            tree = whole
        stated = None
        if "published_time" not in html and "datePublished" not in html:
            stated = _stated(tree, latest.isoformat())
        for meta in tree.iter("meta"):
            if len(content := meta.get("content", "")) > MAX_CONTENT:
                meta.set("content", content[:MAX_CONTENT])
        _repair_json(tree)
        if "\\" in html:
            _repair_formulas(tree)
        found = trafilatura.bare_extraction(
            tree,
            url=url,
            favor_precision=True,  # measured: docs/howto/article.md
            include_comments=False,
            include_formatting=True,
            include_links=True,
            output_format="markdown",
            with_metadata=True,
            date_extraction_params={
                "original_date": True,
                "extensive_search": False,  # would make a date of a copyright notice
                "max_date": latest.isoformat(),
            },
        )
        return Extracted() if found is None else _read(found, stated)
    except RecursionError:
        raise TooDeep(f"{url}: elements of its article are nested too deeply") from None
    except Exception as error:
        raise TooComplex(f"{url}: trafilatura fails on it: {error!r}") from error
    finally:
        forget()


def _stated(tree: Any, latest: str) -> str | None:
    """The day of publication as the text of a page says it, where metadata do not: the only one
    that it calls so, or else the first that stands alone in Japanese or Chinese."""
    texts = [" ".join(text.split()) for text in tree.xpath("//body//text()[not(parent::script)]")]
    called = _PUBLISHED.findall(" ".join(texts))
    alone = [] if called else [text for text in texts if _ALONE.fullmatch(text)][:1]
    plain = {re.sub(r" ?[年月] ?", "-", text).split("日")[0] for text in [*called, *alone]}
    bounds = datetime(1990, 1, 1), datetime.fromisoformat(latest)
    days = {try_date_expr(text, "%Y-%m-%d", False, *bounds) for text in plain}
    return days.pop() if len(days) == 1 else None


def _repair_json(tree: Any) -> None:
    """Leaves only blocks of JSON that are JSON. Regular expressions search other blocks, and never
    end with some."""
    for script in tree.iter("script"):
        if not script.text or "json" not in (script.get("type") or "").lower():
            continue
        try:
            data = decoded_block(script.text) if len(script.text) <= MAX_JSON else None
            script.text = json.dumps(data, ensure_ascii=False)
        except (ValueError, RecursionError):
            script.text = ""


def _repair_formulas(tree: Any) -> None:
    """Makes the beginning of a TeX formula plain text where it has no end."""
    for element in tree.iter("*"):
        for name in ("text", "tail"):
            text = getattr(element, name)
            if text and "\\" in text:
                lines = [_with_ends(line, "\\(", "\\)") for line in text.split("\n")]
                setattr(element, name, _with_ends("\n".join(lines), "\\[", "\\]"))


def _with_ends(text: str, begin: str, end: str) -> str:
    last = text.rfind(end) + 1
    return text[:last] + text[last:].replace(begin, begin[1:])


def forget() -> None:
    """Empties the caches of texts. Otherwise they hold thousands of strings, each as long as pages
    may make it, for as long as the process lives."""
    utils.trim.cache_clear()
    utils.line_processing.cache_clear()
    try_date_expr.cache_clear()
    reset_validator_caches()


def _read(found: Any, stated: str | None) -> Extracted:
    plain = deepcopy(found.body)
    strip_tags(plain, "ref")  # a link would be written with its target
    return Extracted(
        utils.normalize_unicode(xmltotxt(plain, False)),
        utils.normalize_unicode(xmltotxt(found.body, True)),
        found.title or None,
        found.author or None,
        date.fromisoformat(day) if (day := stated or found.date) else None,
    )
