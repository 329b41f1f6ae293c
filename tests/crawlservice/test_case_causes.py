"""Causes of bad runs, decided on generated pages of each kind, also on pages that lie."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from crawlservice.cases.blame import TrialResult, blame, needs_trial
from crawlservice.cases.diagnosis import (
    Diagnosis,
    Evidence,
    HostTally,
    SeenPage,
    diagnose,
    refusing_hosts,
)
from crawlservice.cases.document import Document, keys_of

NAMES = ("Oak chair", "Pine table", "Walnut shelf", "Steel lamp", "Linen sofa", "Cork board")
PRICES = (1299.5, 349.0, 75.25, 18.9, 2150.0, 640.4)
Page = Callable[[int], str]


def old_page(n: int) -> str:
    return (
        f'<html lang="en"><head><title>{NAMES[n]} | Shop</title></head><body>'
        '<nav class="menu"><a class="entry" href="/">Home</a></nav>'
        f'<div class="product"><h1 class="name">{NAMES[n]}</h1>'
        f'<p class="blurb">A fine piece, made by hand.</p><span class="price">${PRICES[n]:,.2f}'
        '</span><ul class="facts"><li class="fact">12 reviews</li></ul></div>'
        '<footer class="foot">Terms</footer></body></html>'
    )


def changed(old: str, new: str) -> Page:
    return lambda n: old_page(n).replace(old, new)


def always(text: str) -> Page:
    return lambda n: text


def with_price(text: str) -> Page:
    """The page with another text in place of its price, whose number is {}."""
    return lambda n: old_page(n).replace(
        f'<span class="price">${PRICES[n]:,.2f}</span>', text.replace("{}", str(PRICES[n]))
    )


def seen(page: Page, *, price: bool = True, items: int = 1, **fields: Any) -> list[SeenPage]:
    found = []
    for n in range(len(NAMES)):
        url = f"https://shop.example/p/{n}"
        values = {"title": [NAMES[n]], "price": [PRICES[n]] if price else [None]}
        given: dict[str, Any] = {"asked": url, "url": url} | {
            name: value(n) if callable(value) else value for name, value in fields.items()
        }
        found.append(
            SeenPage(n + 1, text=page(n), values=values if items else {}, items=items, **given)
        )
    return found


OLD = seen(old_page)


def cause(
    page: Page, *, old: list[SeenPage] | None = None, lost: Any = ("price",), **fields: Any
) -> Diagnosis:
    new = seen(page, **({"price": False} | fields))
    (found,) = diagnose(Evidence(OLD if old is None else old, new, lost))
    return found


def test_a_field_has_another_class() -> None:
    found = cause(changed('class="price"', 'class="amount"'))
    assert (found.cause, found.host, found.fields) == ("renamed", "shop.example", ["price"])
    (place,) = found.proof["places"]
    assert (place["was"], place["now"]) == ("span.price", "span.amount")
    assert (place["found"], place["of"]) == (6, 6)
    one = found.examples[0]
    assert (one.field, one.old, one.new, one.place) == ("price", "1299.5", "", "span.amount")
    assert one.url == "https://shop.example/p/0"


def test_a_field_has_another_tag_and_form() -> None:
    found = cause(with_price('<meta itemprop="price" content="{}">'))
    assert found.cause == "renamed"
    assert found.proof["places"][0]["now"] == "meta[itemprop=price]@content"


@pytest.mark.parametrize(
    "script",
    [
        '<script type="application/ld+json">{"@type":"Product","offers":{"price":%s}}</script>',
        """<script>window.A = {offers: 1}; window.B = {"offers":{"price":"%s"}};</script>""",
    ],
)
def test_a_field_is_only_in_json_now(script: str) -> None:
    found = cause(with_price('<span id="root"></span>' + script.replace("%s", "{}")))
    assert found.cause == "moved"
    assert found.proof["places"][0]["now"] == "$.offers.price"


def test_json_that_was_there_before_is_where_the_field_is_left() -> None:
    def with_json(page: Page) -> Page:
        return lambda n: page(n) + f"<script>data = {json.dumps({'price': PRICES[n]})}</script>"

    old = seen(with_json(old_page))
    assert cause(with_json(with_price("")), old=old).cause == "moved"


def test_a_redesign() -> None:
    def page(n: int) -> str:
        return (
            f'<html lang="en"><body class="v2"><header class="top">Shop</header><main class="grid">'
            f'<section class="card"><h2 class="card-title">{NAMES[n]}</h2>'
            '<div class="card-cta">On request</div></section></main></body></html>'
        )

    found = cause(page)
    assert found.cause == "redesign"
    assert found.proof["places"][0]["kind"] == "gone"
    everything = cause(page, lost=(), items=0)
    assert (everything.cause, everything.fields) == ("redesign", ["price", "title"])


def test_an_old_value_that_is_there_by_accident_proves_nothing() -> None:
    # 12 is also the number of reviews, on all pages: one value, and a short one.
    old = [
        SeenPage(n, page.asked, page.url, page.text.replace("$", "12 "), values={"rooms": [12]},
                 items=1) for n, page in enumerate(OLD)
    ]  # fmt: skip
    new = seen(changed('class="blurb"', 'class="text"'), price=False)
    (found,) = diagnose(Evidence(old, new, ("rooms",)))
    assert found.cause == "unknown"
    # Each page has the prices of all.
    many = "".join(f'<li class="also">${price:,.2f}</li>' for price in PRICES)
    page = with_price(f"<ul>{many}</ul>")
    assert cause(page).proof["places"][0]["kind"] == "gone"


def test_only_some_pages_have_the_new_design() -> None:
    """An A/B test: the pages that are as before, and their values, are no evidence."""
    new = seen(changed('class="price"', 'class="amount"'), price=False)
    mixed = [*new[:2], *OLD[2:]]
    (found,) = diagnose(Evidence(OLD, mixed, ("price",)))
    assert (found.cause, found.proof["bad"], found.proof["of"]) == ("renamed", 2, 6)


def test_new_values_at_the_old_place_are_no_change_of_the_site() -> None:
    found = cause(old_page)
    assert (found.cause, found.unchanged) == ("unknown", True)
    assert cause(lambda n: old_page((n + 1) % len(NAMES))).unchanged


def test_a_challenge_and_a_login() -> None:
    challenge = always("<title>Just a moment...</title><p>Verify you are human</p>")
    found = cause(challenge, items=0, lost=())
    assert (found.cause, found.proof["asks"]) == ("challenge", "challenge")
    login = always("<form>Sign in <input name=u><input type=password name=p></form>")
    assert cause(login, items=0, lost=()).proof["asks"] == "login"


def test_a_page_that_only_speaks_of_robots_is_no_challenge() -> None:
    talks = changed("A fine piece", f"I am not a robot, said the captcha. {'Long text. ' * 200}")
    assert cause(talks, items=0, lost=()).cause != "challenge"
    widget = "<form><input type=password></form></footer>"
    old = seen(changed("</footer>", widget))  # each page has a login
    assert cause(changed("</footer>", widget), old=old, items=0, lost=()).cause != "challenge"


def test_redirects_to_one_page_and_to_another_host() -> None:
    home = always('<html lang="en"><body><h1 class="hero">Welcome</h1></body></html>')
    one = cause(home, items=0, lost=(), url="https://shop.example/sorry")
    assert (one.cause, one.proof["target"]) == ("redirected", "shop.example/sorry")
    assert one.host == "shop.example"
    moved = cause(home, items=0, lost=(), url=lambda n: f"https://new.example/p/{n}")
    assert (moved.cause, moved.proof["target"], moved.host) == (
        *("redirected", "new.example", "shop.example"),
    )
    plain = cause(home, items=0, lost=(), url=lambda n: f"http://shop.example/p/{n}/")
    assert plain.cause != "redirected"


def test_another_language_currency_and_decimal_form() -> None:
    found = cause(changed('lang="en"', 'lang="de-DE"'))
    assert (found.cause, found.proof["language"]) == ("locale", ["en", "de"])
    assert cause(changed("$", "€")).cause == "locale"

    def comma(n: int) -> str:
        text = f"{PRICES[n]:,.2f}"
        return old_page(n).replace(text, text.translate({44: ".", 46: ","}))

    assert cause(comma).cause == "locale"
    assert cause(changed('lang="en"', 'lang="en-US"')).cause == "unknown"


def test_an_empty_listing() -> None:
    rows = "".join(f'<li class="row"><a class="go" href="/{n}">{n} €</a></li>' for n in NAMES)
    shell = (
        '<html lang="en"><body><h1 class="head">Houses</h1><ul class="rows">{}</ul></body></html>'
    )
    full = [
        SeenPage(n, f"https://h.example/list/{n}", f"https://h.example/list/{n}",
                 shell.format(rows), values={"title": [f"{name} €" for name in NAMES]}, items=6)
        for n in range(3)
    ]  # fmt: skip
    none = [
        SeenPage(9 + n, page.asked, page.url, shell.format('<li class="row">Nothing found</li>'))
        for n, page in enumerate(full)
    ]
    (found,) = diagnose(Evidence(full, none, ()))
    assert (found.cause, found.fields) == ("empty", ["title"])


def run(**reasons: int) -> HostTally:
    return HostTally(20, Counter(reasons))


def test_hosts_that_do_not_answer_or_refuse() -> None:
    hosts = {"a.example": run(dns=18), "b.example": run(http_403=12), "c.example": run(timeout=19)}
    known = frozenset(hosts)
    found = diagnose(Evidence([], [], hosts=hosts, known=known))
    assert [(one.cause, one.host) for one in found] == [
        ("host_dead", "a.example"), ("blocked", "b.example"),
    ]  # fmt: skip
    (slow,) = diagnose(Evidence([], [], hosts={"c.example": run(timeout=19)}))
    assert slow.cause == "unknown"  # it may only be slow
    assert slow.proof["reasons"] == {"timeout": 19}
    # A host that never answered, and one of few pages, as of a crawl of many hosts.
    few = {"x.example": HostTally(1, Counter(dns=1)), "c.example": HostTally(50)}
    assert diagnose(Evidence([], [], hosts=few))[0].cause == "unknown"
    assert diagnose(Evidence([], [], hosts=hosts, known=frozenset()))[0].cause == "unknown"
    (gone,) = diagnose(Evidence([], [], hosts={"a.example": run(http_404=15)}))
    assert (gone.cause, gone.proof["missing"]) == ("redesign", True)
    assert not refusing_hosts(["a", "b", "b"])
    assert refusing_hosts(["a", "b", "c"])


def test_a_refusal_whose_page_is_a_challenge() -> None:
    page = always("<title>Attention Required!</title>Solve the captcha")
    new = seen(page, items=0, failed=True)
    hosts = {"shop.example": HostTally(6, Counter(http_403=6))}
    (found,) = diagnose(Evidence(OLD, new, hosts=hosts))
    assert found.cause == "challenge"
    assert found.examples[0].new == "Solve the captcha"


def test_pages_of_a_callback_without_items_are_as_they_should_be() -> None:
    lists = [SeenPage(50, "https://shop.example/", "https://shop.example/", "<a>x</a>", "listing")]
    new = [*lists, *seen(changed('class="price"', 'class="amount"'), price=False)]
    (found,) = diagnose(Evidence([*lists, *OLD], new, ("price",)))
    assert (found.cause, found.proof["bad"], found.proof["of"]) == ("renamed", 6, 6)


def test_without_kept_pages_it_is_unknown_and_says_so() -> None:
    assert diagnose(Evidence(OLD, [], ("price",)))[0].proof == {"lacks": "bad"}
    (found,) = diagnose(Evidence([], seen(old_page, price=False), ("price",)))
    assert (found.cause, found.proof["lacks"]) == ("unknown", "old")


# -- whoever is to blame ---------------------------------------------------------------------------


def test_the_same_code_is_not_to_blame() -> None:
    found = Diagnosis("renamed")
    assert not needs_trial(found, "1f00", "1f00")
    assert (blame(found, "1f00", "1f00"), found.proof["blame"]) == ("site", "same_version")
    assert blame(Diagnosis("unknown", unchanged=True), "1f00", "1f00") == "unknown"


def test_new_code_that_fails_on_old_pages_is() -> None:
    found = Diagnosis("unknown", fields=["price"], unchanged=True)
    assert needs_trial(found, "1f00", "2a00")
    seen = {"items.price": 8, "items.note": 8}
    result = TrialResult(8, seen, {"items.price": 7, "items.note": 8})
    assert (blame(found, "1f00", "2a00", result), found.cause) == ("commit", "commit")
    assert found.proof["worse"] == {"items.price": 7}


def test_new_code_that_raises_errors_on_old_pages_is() -> None:
    found = Diagnosis("unknown", fields=["price"])
    assert blame(found, "1f00", "2a00", TrialResult(8, {"errors": 8}, {"errors": 6})) == "commit"


def test_new_code_that_does_well_on_old_pages_is_not() -> None:
    found = Diagnosis("renamed", fields=["price"])
    seen = {"items.price": 8, "errors": 8}
    result = TrialResult(8, seen, {"items.note": 8, "errors": 1})
    assert blame(found, "1f00", "2a00", result) == "site"
    assert (found.cause, found.proof["blame"]) == ("renamed", "well_on_old")
    assert blame(Diagnosis("renamed"), "1f00", "2a00", TrialResult(same_code=True)) == "site"


def test_without_a_trial_nobody_is() -> None:
    lists = TrialResult(8, {"items.title": 8})  # pages without a value of the field
    for result in (None, TrialResult(problem="no checkout"), TrialResult(), lists):
        found = Diagnosis("renamed", fields=["price"])
        assert (blame(found, "1f00", "2a00", result), found.proof["blame"]) == (
            *("unknown", "not_tried"),
        )
    assert blame(Diagnosis("renamed"), "", "2a00") == "unknown"


def test_a_challenge_is_the_sites_and_a_refusal_ours() -> None:
    assert not needs_trial(Diagnosis("challenge"), "1f00", "2a00")
    assert blame(Diagnosis("challenge"), "1f00", "2a00") == "site"
    assert blame(Diagnosis("blocked"), "1f00", "2a00") == "we"


# -- values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1299.5, "$1,299.50"), (1299.5, "1.299,50 €"), (1299, "1'299"), ("1 299,50", "1,299.5"),
        (" Oak  chair", "oak chair"), (1299, "1.299"), (75.25, "75,25"), (["Oak"], "Oak"),
    ],
)  # fmt: skip
def test_forms_of_one_value(one: Any, other: Any) -> None:
    assert {*keys_of(one)} & {*keys_of(other)}


@pytest.mark.parametrize(("one", "other"), [(12, "12 reviews"), (1, "1 of 3"), (True, "1")])
def test_other_values(one: Any, other: Any) -> None:
    assert not {*keys_of(one)} & {*keys_of(other)}


def test_addresses_are_absolute_and_deep_or_broken_pages_are_read() -> None:
    found = Document("<img class=p src=/a.png><a href='?x=1'>x</a>", "https://h.example/d/e")
    assert found.places_of("https://h.example/a.png")
    assert found.places_of("https://h.example/d/e?x=1")
    for text in ("", "<", "{" * 5000, "<div>" * 5000, "<script>x = {[{</script>" * 50):
        assert Document(text, "https://h.example/").places_of("abc") == set()
