"""Learning from pages: evidence for and against a rule."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from msgspec.structs import replace

from crawlframe.aliases.learn import MIN_SUPPORT, MOST_PLACES, LearnedRule, Sample, learn
from crawlframe.aliases.rule import MAX_URL, Aliases
from crawlframe.aliases.verify import AliasPage, AliasVerdict, Content, chosen, verify

SITE = "http://shop.example"


def sample(path: str, content: str, final: str = "") -> Sample:
    url = SITE + path
    return Sample(url, SITE + final if final else url, content.encode(), content.encode())


def pairs(names: int = 10, prefix: str = "/p") -> list[Sample]:
    """Pages with and without a session."""
    found = []
    for n in range(names):
        found += [sample(f"{prefix}{n}", f"page {n}"), sample(f"{prefix}{n}?sid=s{n}", f"page {n}")]
    return found


def told(found: list[LearnedRule]) -> list[str]:
    return [str(one.rule) for one in found]


def test_a_rule_needs_support_of_different_pages() -> None:
    found = learn(pairs())
    assert told(found) == ["ignore sid"]
    assert (found[0].support, found[0].contradictions) == (10, 0)
    assert learn(pairs(MIN_SUPPORT - 1)) == []
    same = [sample(f"/p?id={n}", "nothing here") for n in range(100)]
    assert learn([*same, sample("/p", "nothing here")]) == []


def test_one_content_at_many_pages_proves_nothing() -> None:
    """Each folder says the same of all its ids, and all folders the same."""
    some = [sample(f"/f{n}/x?id={k}", "nothing here") for n in range(20) for k in range(9)]
    assert learn(some) == []


def test_pages_against_it() -> None:
    against = [sample("/q", "one"), sample("/q?sid=1", "other")]
    found = learn([*pairs(20), *against])
    assert told(found) == ["ignore sid"], "to be fetched again: a page may have changed"
    assert found[0].against == [(f"{SITE}/q", f"{SITE}/q?sid=1")]
    assert chosen(found[0], 5)[0] == found[0].against[0], "what speaks against it is first"
    assert learn([*pairs(MIN_SUPPORT), *against]) == [], "too much speaks against it"


def test_a_known_rule_that_pages_speak_against_is_reported() -> None:
    known = learn(pairs())[0].rule
    against = [
        one
        for n in range(9)
        for one in (sample(f"/q{n}", f"one {n}"), sample(f"/q{n}?sid=1", f"other {n}"))
    ]
    found = learn(against, [known])
    assert told(found) == ["ignore sid"]
    assert not found[0].is_likely
    assert found[0].contradictions == 9


def test_a_rule_that_was_refused_is_not_proposed() -> None:
    rule = learn(pairs())[0].rule
    assert learn(pairs(), revoked=[rule]) == [], "it does not become one that sorts, either"
    assert learn(pairs(), refuted=[rule]) == []
    assert learn(pairs(), refuted=[replace(rule, kind="sort")]) == []
    other = replace(rule, origin="http://other.example")
    assert told(learn(pairs(), revoked=[other])) == ["ignore sid"]


def test_a_page_that_differs_at_the_same_url_says_nothing() -> None:
    some = pairs(MIN_SUPPORT)
    assert learn([*some, some[0]._replace(exact=b"now another")]) == []


def test_a_redirect_to_another_page_says_nothing() -> None:
    home = [sample(f"/p{n}?sid=1", f"home {n % 7}", f"/home{n % 7}") for n in range(40)]
    more = [sample(f"/p{n}", f"home {n % 7}", f"/home{n % 7}") for n in range(40)]
    assert learn([*home, *more]) == []
    to_plain = [s._replace(final=s.url.partition("?")[0]) for s in pairs()]
    assert told(learn(to_plain)) == ["ignore sid"]


def test_parameters_that_always_come_together() -> None:
    some = []
    for n in range(10):
        some += [sample(f"/p{n}", f"page {n}"), sample(f"/p{n}?a={n}&b={n}", f"page {n}")]
    assert told(learn(some)) == ["ignore a, b"]


def test_pages_by_number_are_no_order() -> None:
    some = [sample(f"/list{n}?page={k}", f"list {n} page {k}") for n in range(9) for k in range(4)]
    assert learn(some) == []


def test_origins_are_apart() -> None:
    other = [one._replace(url=one.url.replace("shop", "other")) for one in pairs()[::2]]
    assert learn([*pairs()[1::2], *other]) == []


def test_each_page_may_seem_to_speak_for_a_rule_of_its_own() -> None:
    """Pages such as ?id=5 and /a/title-5: the time must not grow with the square of the pages."""
    some = []
    for n in range(400):
        some += [sample(f"/item?id={n}", f"{n}"), sample(f"/a/{'x' * (n % 7)}{n * n}-{n}", f"{n}")]
    start = time.process_time()
    learn(some)
    one = time.process_time() - start
    more = [
        item._replace(url=item.url.replace("/item", "/b").replace("/a/", "/c/")) for item in some
    ]
    start = time.process_time()
    learn([*some, *[item._replace(exact=item.exact + b"+", unordered=b"+") for item in more]])
    assert time.process_time() - start < 3 * one + 0.5


def test_the_places_of_a_rule_are_bounded() -> None:
    def at(places: Iterable[str]) -> list[Sample]:
        return [sample(place + session, place) for place in places for session in ("", "&sid=1")]

    folders = learn(at(f"/f{'x' * n}/?a=1" for n in range(30)))[0].rule
    assert folders.places == {"*?a"}
    names = learn(at(f"/f?a{n}=1" for n in range(MOST_PLACES + 50)))[0].rule
    assert len(names.places) == MOST_PLACES
    everywhere = learn(at(f"/f{'x' * (n % 6)}?a{n}=1" for n in range(30)))[0].rule
    assert everywhere.places == {"*?*"}


def test_the_marks_of_places_in_urls_mean_nothing() -> None:
    rule = learn([s for n in range(6) for s in (
        sample(f"/*/{n}?*=1", f"{n}"), sample(f"/*/{n}?*=1&sid=1", f"{n}"),
    )])[0].rule  # fmt: skip
    key = Aliases([rule]).key
    assert key(f"{SITE}/*/9?*=2&sid=1") == f"{SITE}/*/9?*=2"
    assert key(f"{SITE}/other?page=2&sid=1") == f"{SITE}/other?page=2&sid=1"


def test_a_url_may_be_too_long_for_a_rule() -> None:
    long = [item._replace(url=item.url + "&x=" + "a" * MAX_URL) for item in pairs()]
    assert learn(long) == []
    rule = learn(pairs())[0].rule
    assert Aliases([rule]).find(f"{SITE}/p1?sid=1") is not None
    assert Aliases([rule]).find(f"{SITE}/p1?sid={'a' * MAX_URL}") is None


# -- verification ---------------------------------------------------------------------------------


class Site:
    """``pages``: results of URLs, by path; a function is called each time."""

    def __init__(self, **pages: AliasPage) -> None:
        self.pages = pages
        self.asked: list[str] = []

    async def fetch(self, url: str) -> AliasPage:
        self.asked.append(url)
        name = url.removeprefix(SITE + "/")
        plain = self.pages.get(name.partition("?")[0].strip("0123456789"), page(url))
        got = self.pages.get(name.replace("?", "_").replace("=", ""), plain)
        return got if got.final or got.problem else got._replace(final=url)


def page(url: str, status: int = 200, proves: bool = True) -> AliasPage:
    text = url.partition("?")[0].encode()
    return AliasPage("", status, Content(text, text, proves))


def verdict(site: Site, found: LearnedRule | None = None) -> AliasVerdict:
    return asyncio.run(verify(found or learn(pairs())[0], site.fetch))


def test_a_rule_that_holds() -> None:
    site = Site()
    found = verdict(site)
    assert (found.state, len(found.equal), found.fetches) == ("verified", 5, 10)
    assert len(site.asked) == 10


def test_one_pair_that_differs_refutes_it() -> None:
    found = verdict(Site(p1_sids1=page("/another")))
    assert (found.state, len(found.different)) == ("refuted", 1)
    assert "differ" in found.problem


def test_a_counter_example_of_old_pages_is_fetched_first() -> None:
    against = [sample("/q", "one"), sample("/q?sid=1", "other")]
    found = learn([*pairs(20), *against])[0]
    assert verdict(Site(), found).state == "verified", "it has changed between two fetches"
    assert verdict(Site(q_sid1=page("/another")), found).state == "refuted"


def test_what_is_gone_without_the_parameter_refutes_it() -> None:
    assert verdict(Site(p1=page("", 404))).state == "refuted"
    moved = page("/home")._replace(final=f"{SITE}/home")
    assert verdict(Site(p1=moved)).state == "refuted"


def test_nothing_is_known_if_nothing_could_be_compared() -> None:
    for got in (
        AliasPage(problem="robots.txt forbids it"),
        page("", 503),
        page("", 429),
        page("/login", proves=False),
        page("/home")._replace(final=f"{SITE}/home"),
    ):
        found = verdict(Site(p=got))
        assert (found.state, found.equal) == ("proposed", [])
        assert found.problem


def test_what_spoke_against_it_must_be_compared() -> None:
    """A parameter may matter where pages also change with each fetch, or cannot be fetched."""
    against = [sample("/q", "one"), sample("/q?sid=1", "other")]
    found = learn([*pairs(20), *against])[0]
    judged = verdict(Site(q=AliasPage(problem="robots.txt forbids it")), found)
    assert (judged.state, len(judged.equal)) == ("proposed", 3)
    assert "speak against it" in judged.problem


def test_a_wall_before_all_pages_proves_nothing() -> None:
    """A wall is neither empty nor a form: only its presence everywhere reveals it."""
    wall = page("/subscribe")
    judged = verdict(Site(p=wall))
    assert (judged.state, len(judged.equal)) == ("proposed", 5)
    assert judged.problem == "5 pairs show only 1 different pages"
    against = [sample(f"/q{n}{sid}", f"{n}{sid}") for n in (1, 2) for sid in ("", "?sid=1")]
    found = learn([*pairs(20), *against])[0]
    assert found.contradictions == 2
    judged = verdict(Site(q=wall), found)
    assert judged.state == "proposed"
    assert "shows the same as" in judged.problem
