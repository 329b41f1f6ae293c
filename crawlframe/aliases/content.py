"""Content: what of a page must be equal if two URLs lead to the same one."""

from __future__ import annotations

import re
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple

from crawlframe.base.urls import canonical
from crawlframe.errors import CrawlframeError
from crawlframe.response.response import Response

MIN_WORDS = 20  # a page with fewer proves nothing: an error may look the same at each URL
WALL_WORDS = 200  # a page with a password field and fewer words asks for a login
_SILENT = ["script", "style", "template", "noscript"]
# What titles of pages say that are not the page that was asked for.
_WALL = re.compile(
    r"\b(?:not found|no such|does ?n.t exist|error|log ?in|sign ?in|access denied|forbidden|"
    r"unauthori[sz]ed|captcha|are you (?:a )?human|unavailable|expired|maintenance|"
    r"too many requests)\b|^\s*[45]0\d\b|"
    "未找到|不存在|登录|登錄|验证码|驗證碼|错误|錯誤|无法访问|维护",
    re.IGNORECASE,
)
# A value that is in no text by chance: that of a session. The first form needs letters and digits.
_TOKEN = re.compile(r"[A-Za-z0-9]{12,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
MOST_TOKENS = 16  # of a URL, each of which is searched for in the whole page


class Content(NamedTuple):
    """``exact``: hash of words and addresses in their order; ``unordered``: in any order.
    ``proves``: it is a page of its own, no error, login or empty page that many URLs show."""

    exact: bytes
    unordered: bytes
    proves: bool


def content_of(response: Response) -> Content:
    """Return the content of a page. Tokens of its own URL, such as a session, do not count in it,
    nor do queries of links and what is not shown."""
    html = response.kind == "html"
    try:
        words, addresses, wall = _parts(response) if html else ([], [], False)
    except CrawlframeError:  # too deep or too complex to be parsed
        html = False
    if not html:
        digest = _hash([response.body])
        return Content(digest, digest, response.ok and len(response.body) > 8 * MIN_WORDS)
    encoded = [part.encode("utf-8", "replace") for part in (*words, "\0", *addresses)]
    proves = response.ok and not wall and len(words) >= MIN_WORDS
    return Content(_hash(encoded), _hash(sorted(encoded)), proves)


def _parts(response: Response) -> tuple[list[str], list[str], bool]:
    tree = response.tree
    hrefs = [node.attrs.get("href") or "" for node in tree.css("a[href]")]
    # Those to the page itself depend on its URL.
    links = response._join_all([href for href in hrefs if href and href[0] not in "#?"])
    images = [node.attrs.get("src") or "" for node in tree.css("img[src]")]
    password = tree.css_first('input[type="password"]') is not None
    heads = " ".join(node.text() for node in (*tree.css("title"), *tree.css("h1")))
    tree.strip_tags(_SILENT)
    title = " ".join(node.text() for node in tree.css("title"))
    body = tree.body.text(separator=" ") if tree.body is not None else ""
    urls = (canonical(response.request.url), response.url)
    tokens = [*dict.fromkeys(token for url in urls for token in _tokens(url))]
    text = f"{title} {body}"
    addresses = [_bare(link, tokens) for link in links if link]
    addresses += [_without(image, tokens) for image in images if not image.startswith("data:")]
    words = _without(text, tokens).split()
    wall = bool(_WALL.search(heads)) or (password and len(words) < WALL_WORDS)
    return words, addresses, wall


def _tokens(url: str) -> list[str]:
    found = (one for one in _TOKEN.findall(url) if not (one.isalpha() or one.isdigit()))
    return [*islice(found, MOST_TOKENS)]


def _bare(url: str, tokens: list[str]) -> str:
    """The address without what rules may ignore."""
    path = re.sub(r";[^/]*", "", url.partition("?")[0]).lower()
    path = re.sub(r"/(?:index|default|home|main)\.\w{2,5}$", "/", path)
    return _without(path.rstrip("/"), tokens)


def _without(text: str, tokens: list[str]) -> str:
    for token in tokens:
        text = text.replace(token, "").replace(token.lower(), "")
    return text


def _hash(parts: list[bytes]) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()
