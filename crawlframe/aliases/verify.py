"""Verification of a rule: pairs of URLs that it says are one page are fetched and compared."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from msgspec.structs import replace

from crawlframe.aliases.content import Content
from crawlframe.aliases.learn import Found
from crawlframe.aliases.rule import AliasRule
from crawlframe.links import canonical

PAIRS = 5  # that are fetched of a rule
ENOUGH = 3  # of them that must be equal
GONE = range(400, 429)  # statuses that say that this URL is no page: 429 and 5xx say nothing


class Fetched(NamedTuple):
    """What a URL brings now. ``final``: the URL of the page, after redirects. ``content``: None if
    there is none. ``problem``: why nothing is known of it, such as robots.txt."""

    final: str = ""
    status: int = 0
    content: Content | None = None
    problem: str = ""

    @property
    def is_page(self) -> bool:
        return self.content is not None and 200 <= self.status < 300


Fetch = Callable[[str], Awaitable[Fetched]]


@dataclass(slots=True)
class Verdict:
    """What came of it. ``rule``: with the places at which it was found to hold, too."""

    rule: AliasRule
    state: Literal["proposed", "verified", "refuted"] = "proposed"
    equal: list[tuple[str, str]] = field(default_factory=list)
    different: list[tuple[str, str]] = field(default_factory=list)
    fetches: int = 0
    problem: str = ""


async def verify(found: Found, fetch: Fetch, pairs: int = PAIRS) -> Verdict:
    """Fetch up to ``pairs`` pairs of URLs, two or three fetches each. The first pair that differs
    refutes the rule. ``fetch`` obeys robots.txt and the delay of the host."""
    verdict, problem = Verdict(found.rule), ""
    places = set(found.rule.places)
    for one, other in chosen(found, pairs):
        same, problem = await _compare(found.rule, one, other, fetch, verdict)
        if same is None:
            verdict.problem = problem
        elif same:
            verdict.equal.append((one, other))
            places.add(found.rule.place_of(one))
        else:
            verdict.different.append((one, other))
            verdict.state, verdict.problem = "refuted", problem
            return verdict
    verdict.rule = replace(found.rule, places=frozenset(places))
    if len(verdict.equal) >= min(ENOUGH, pairs):
        verdict.state, verdict.problem = "verified", ""
    elif not verdict.problem:
        verdict.problem = f"only {len(verdict.equal)} pairs could be compared"
    return verdict


def chosen(found: Found, most: int) -> list[tuple[str, str]]:
    """Return the pairs to be fetched: those that speak against the rule first, then places where it
    was not seen, then those that speak for it, from different places, with the key of the rule."""
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
    rule: AliasRule, one: str, other: str, fetch: Fetch, verdict: Verdict
) -> tuple[bool | None, str]:
    """Whether two URLs bring the same page; None if that is not known. And what was found."""
    first, second = await fetch(one), await fetch(other)
    verdict.fetches += 2
    for url, got, beside in ((one, first, second), (other, second, first)):
        if got.problem:
            return None, f"{url}: {got.problem}"
        if moved := _moved(rule, got, (one, other)):
            if beside.is_page and not _moved(rule, beside, (one, other)):
                return False, f"{url} leads to {moved}"
            return None, f"{url} leads to {moved}"
        if got.status in GONE and beside.is_page:
            return False, f"{url} answers {got.status}"
        if not got.is_page:
            return None, f"{url} answers {got.status}"
    if not first.content or not second.content:
        return None, ""
    if not (first.content.proves or second.content.proves):
        return None, f"{one} shows an error, a login or hardly any text"
    if _same(rule, first.content, second.content):
        return True, ""
    again = await fetch(one)
    verdict.fetches += 1
    if again.content is None or again.content.exact != first.content.exact:
        return None, f"{one} changes by itself"
    return False, f"{one} and {other} differ"


def _moved(rule: AliasRule, got: Fetched, pair: tuple[str, str]) -> str:
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
