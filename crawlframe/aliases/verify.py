"""Verification of a rule: pairs of URLs that it says are one page are fetched and compared."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import islice
from typing import Literal, NamedTuple

from msgspec.structs import replace

from crawlframe.aliases.learn import LearnedRule
from crawlframe.aliases.rule import AliasRule
from crawlframe.base.urls import canonical
from crawlframe.errors import CrawlframeError
from crawlframe.response.response import Response

MIN_WORDS = 20  # a page with fewer proves nothing: an error may look the same at each URL
WALL_WORDS = 200  # a page with a password field and fewer words asks for a login
_SILENT = ["script", "style", "template", "noscript"]
# Words in titles of pages other than the requested one.
_WALL = re.compile(
    r"\b(?:not found|no such|does ?n.t exist|error|log ?in|sign ?in|access denied|forbidden|"
    r"unauthori[sz]ed|captcha|are you (?:a )?human|unavailable|expired|maintenance|"
    r"too many requests)\b|^\s*[45]0\d\b|"
    "未找到|不存在|登录|登錄|验证码|驗證碼|错误|錯誤|无法访问|维护",
    re.IGNORECASE,
)
# A value that is in no text by chance: a session's. The first form needs letters and digits.
_TOKEN = re.compile(r"[A-Za-z0-9]{12,}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
MOST_TOKENS = 16  # of a URL, each searched for in the whole page
PAIRS = 5  # that are fetched of a rule
EQUAL_PAIRS = 3  # of them that must be equal
GONE = range(400, 429)  # statuses that say that this URL is no page: 429 and 5xx say nothing


class Content(NamedTuple):
    """``exact``: hash of words and addresses in their order; ``unordered``: in any order.
    ``proves``: it is a page of its own, no error, login or empty page that many URLs show."""

    exact: bytes
    unordered: bytes
    proves: bool


def content_of(response: Response) -> Content:
    """Return the content of a page. Tokens of its own URL, such as a session, do not count in it,
    nor do queries of links and hidden text."""
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
    # Links to the page itself depend on its URL.
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
    """The address without the parts that rules may ignore."""
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


class AliasPage(NamedTuple):
    """The present page of a URL. ``final``: the URL of the page, after redirects. ``content``: None
    if there is none. ``problem``: why it is unknown, such as robots.txt."""

    final: str = ""
    status: int = 0
    content: Content | None = None
    problem: str = ""

    @property
    def is_page(self) -> bool:
        return self.content is not None and 200 <= self.status < 300


Fetch = Callable[[str], Awaitable[AliasPage]]


@dataclass(slots=True)
class AliasVerdict:
    """The result of a check. ``rule``: with the places where it was found to hold, too."""

    rule: AliasRule
    state: Literal["proposed", "verified", "refuted"] = "proposed"
    equal: list[tuple[str, str]] = field(default_factory=list)
    different: list[tuple[str, str]] = field(default_factory=list)
    fetches: int = 0
    problem: str = ""


async def verify(found: LearnedRule, fetch: Fetch, pairs: int = PAIRS) -> AliasVerdict:
    """Fetch up to ``pairs`` pairs of URLs, two or three fetches each. The first pair that differs
    refutes the rule. One of old pages that spoke against it must be equal now, or the rule stays a
    proposal. A content that several pairs show proves little: it may be a wall that stands before
    all pages, and counts once. ``fetch`` obeys robots.txt and the delay of the host."""
    verdict, problem, doubt = AliasVerdict(found.rule), "", ""
    shown: dict[bytes, list[tuple[str, str]]] = {}
    for one, other in chosen(found, pairs):
        same, problem, content = await _compare(found.rule, one, other, fetch, verdict)
        if same is None:
            verdict.problem = problem
            if (one, other) in found.against:
                doubt = problem
        elif same:
            verdict.equal.append((one, other))
            some = shown.setdefault(content, [])
            if not any(_is_one(found.rule, (one, other), pair) for pair in some):
                some.append((one, other))
        else:
            verdict.different.append((one, other))
            verdict.state, verdict.problem = "refuted", problem
            return verdict
    places = set(found.rule.places)
    for some in shown.values():
        if len(some) == 1:
            places.add(found.rule.place_of(some[0][0]))
        elif against := next((pair for pair in some if pair in found.against), None):
            doubt = f"{against[0]} shows the same as {next(p[0] for p in some if p != against)}"
    verdict.rule = replace(found.rule, places=frozenset(places))
    if doubt:
        verdict.problem = f"pages speak against it, and could not be compared: {doubt}"
    elif len(shown) >= min(EQUAL_PAIRS, pairs):
        verdict.state, verdict.problem = "verified", ""
    elif len(shown) < len(verdict.equal):
        verdict.problem = f"{len(verdict.equal)} pairs show only {len(shown)} different pages"
    elif not verdict.problem:
        verdict.problem = f"only {len(verdict.equal)} pairs could be compared"
    return verdict


def chosen(found: LearnedRule, most: int) -> list[tuple[str, str]]:
    """Return the pairs to be fetched: pairs against the rule first, then places where it was not
    seen, then pairs for it, from different places, with the key of the rule."""
    rule = found.rule
    pairs: dict[tuple[str, str], None] = dict.fromkeys(found.against[: max(1, most // 2)])
    pairs |= dict.fromkeys(found.untried[: max(1, most // 2)])
    by_place: dict[str, list[tuple[str, str]]] = {}
    for pair in found.pairs:
        url = next((url for url in pair if rule.rewritten(url) != url), None)
        if url is not None:
            place = rule.place_of(url)
            by_place.setdefault(place, []).append((url, rule.rewritten(url)))
    while any(by_place.values()):
        for some in by_place.values():
            if some:
                pairs[some.pop(0)] = None
    return [*pairs][:most]


async def _compare(
    rule: AliasRule, one: str, other: str, fetch: Fetch, verdict: AliasVerdict
) -> tuple[bool | None, str, bytes]:
    """Whether two URLs bring the same page, None if that is not known; the finding; and the content
    if they do."""
    first, second = await fetch(one), await fetch(other)
    verdict.fetches += 2
    for url, got, beside in ((one, first, second), (other, second, first)):
        if got.problem:
            return None, f"{url}: {got.problem}", b""
        if moved := _moved(rule, got, (one, other)):
            if beside.is_page and not _moved(rule, beside, (one, other)):
                return False, f"{url} leads to {moved}", b""
            return None, f"{url} leads to {moved}", b""
        if got.status in GONE and beside.is_page:
            return False, f"{url} answers {got.status}", b""
        if not got.is_page:
            return None, f"{url} answers {got.status}", b""
    if not first.content or not second.content:
        return None, "", b""
    if not (first.content.proves or second.content.proves):
        return None, f"{one} shows an error, a login or hardly any text", b""
    if _same(rule, first.content, second.content):
        return True, "", first.content.unordered
    again = await fetch(one)
    verdict.fetches += 1
    if again.content is None or again.content.exact != first.content.exact:
        return None, f"{one} changes by itself", b""
    return False, f"{one} and {other} differ", b""


def _is_one(rule: AliasRule, one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether the rule says that two pairs are of one page."""
    return not {*map(rule.rewritten, one)}.isdisjoint(map(rule.rewritten, other))


def _moved(rule: AliasRule, got: AliasPage, pair: tuple[str, str]) -> str:
    """Where a redirect led that is none of the pair, as the rule knows them; "" otherwise."""
    final = canonical(got.final)
    if not final.startswith(rule.origin + "/"):
        return final
    known = {*pair, *(rule.rewritten(url) for url in pair)}
    return "" if final in known or rule.rewritten(final) in known else final


def _same(rule: AliasRule, one: Content, other: Content) -> bool:
    if rule.kind == "sort":
        return one.unordered == other.unordered
    return one.exact == other.exact
