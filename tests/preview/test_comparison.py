"""Results of two versions are compared by part; what changes from run to run is left out."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe.base.exact_json import dumps
from crawlframe.preview.comparison import (
    EXAMPLES,
    FIELDS,
    VALUE,
    Example,
    Place,
    SpiderComparison,
    Tried,
    difference_of,
)

URL = "https://shop.example/a"
PLACE = Place(URL, 7)


def done(*items: Any, links: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    requests = [{"url": url, "callback": "parse"} for url in links]
    found = {"end": "done", "items": [*items], "requests": requests, **more}
    return {name: value for name, value in found.items() if value}


def raised(error: str) -> dict[str, Any]:
    return {"end": "error", "reason": "callback", "raised": error}


def tried(snapshot: dict[str, Any], seconds: float = 0.001) -> Tried:
    return Tried(dumps(snapshot), seconds)


def compared(*pages: tuple[dict[str, Any], dict[str, Any]]) -> SpiderComparison:
    """A spider whose old code makes the same of a page each time."""
    found = SpiderComparison("shop")
    for number, (before, after) in enumerate(pages):
        url = f"{URL}{number}"
        if not found.take(Place(url), tried(before), tried(after)):
            assert found.take(Place(url), tried(before), tried(after), tried(before))
    return found


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (done({"a": 1}), done({"a": 1}), []),
        (done({"a": 1}), done({"a": 2}), [("items.a", "changed")]),
        (done({"a": 1}), done({"a": True}), [("items.a", "changed")]),
        (done({"a": 1, "b": 2}), done({"b": 2}), [("items.a", "lost")]),
        (done({"a": "x", "b": 2}), done({"a": "", "b": 2}), [("items.a", "lost")]),
        (done({"a": None, "b": 2}), done({"a": 0, "b": 2}), [("items.a", "gained")]),
        (done({"a": None}), done({"a": ""}), [("items.a", "changed")]),
        (done({"b": 1, "a": None}), done({"b": 1}), []),
        (done({"a": 1}, {"a": 2}), done({"a": 2}, {"a": 1}), [("items", "changed")]),
        (done({"a": 1}, {"a": 2}), done({"a": 2}), [("items", "lost")]),
        (done({"a": 1}), done({"a": 0}, {"a": 1}), [("items", "gained")]),
        (done("x"), done("y"), [("items.", "changed")]),
        (done(links=("u", "v")), done(links=("v",)), [("requests", "lost")]),
        (done(links=("u",)), done(links=("u", "w")), [("requests", "gained")]),
        (done(), raised("ValueError: x"), [("errors", "gained")]),
        (raised("ValueError: x"), done({"a": 1}), [("errors", "lost")]),
        (raised("ValueError: x"), raised("ValueError: y"), []),
        (raised("ValueError: x"), raised("KeyError: y"), [("errors", "changed")]),
        (done(stats={"n": 1}), done(stats={"n": 2}), [("stats", "changed")]),
        (done(dropped={"no price": 1}), done(), [("dropped", "changed")]),
    ],
)  # fmt: skip
def test_changes(
    before: dict[str, Any], after: dict[str, Any], changes: list[tuple[str, str]]
) -> None:
    assert [(one.part, one.kind) for one in difference_of(before, after)[1]] == changes


def test_a_request_with_another_body_is_another_link() -> None:
    def request(**more: Any) -> dict[str, Any]:
        return {"end": "done", "requests": [{"url": "u", "callback": "parse", **more}]}

    found = difference_of(request(body="a"), request(body="b"))[1]
    assert [one.kind for one in found] == ["lost", "gained"]
    [one] = difference_of(request(meta={"n": 1}), request(meta={"n": 2}))[1]
    assert one.kind == "changed"


def test_values_are_counted_whether_a_page_differs_or_not() -> None:
    item = {"a": 1, "b": "x", "c": None}
    found = compared(
        (done(item, item, links=("u",)), done(item, item, links=("u",))),
        (done(item, item, links=("u",)), done(item, {**item, "b": "y"}, links=("u",))),
    )
    assert {name: one.unchanged for name, one in found.parts.items()} == {
        "items": 4, "items.a": 4, "items.b": 3, "requests": 2,
    }  # fmt: skip
    assert [*found.differing] == ["items.b"]
    assert found.parts["items.b"].changed == 1
    [example] = found.parts["items.b"].examples
    assert example == Example("changed", f"{URL}1", "x", "y")
    assert found.pages == 2


def test_parts_that_change_from_run_to_run_are_left_out() -> None:
    found = SpiderComparison("shop")
    first = tried(done({"a": 1, "at": 1})), tried(done({"a": 2, "at": 2}))
    assert not found.take(PLACE, *first)
    assert found.pages == 0
    assert found.take(PLACE, *first, tried(done({"a": 1, "at": 3})))
    assert found.unsteady == {"items.at"}
    assert {name: one.changed for name, one in found.parts.items()} == {"items": 0, "items.a": 1}
    # It is known now.
    assert found.take(PLACE, tried(done({"at": 1})), tried(done({"at": 2})))
    assert "items.at" not in found.parts


def test_a_part_is_confirmed_by_few_pages() -> None:
    found = SpiderComparison("shop")
    page = tried(done({"a": 1})), tried(done({"a": 2}))
    again = 0
    for _ in range(9):
        if not found.take(PLACE, *page):
            again += 1
            assert found.take(PLACE, *page, page[0])
    assert again == 2
    assert found.parts["items.a"].changed == 9


def test_what_is_ignored_is_not_compared() -> None:
    found = SpiderComparison("shop", lambda part: part == "items.a")
    assert found.take(PLACE, tried(done({"a": 1, "b": 1})), tried(done({"a": 2, "b": 1})))
    assert not found.differing
    assert "items.a" not in found.parts


def test_examples_values_and_fields_are_bounded() -> None:
    found = compared(*[(done({"a": "x" * 999}), done({"a": "y" * 999}))] * 9)
    tally = found.parts["items.a"]
    assert (tally.changed, len(tally.examples)) == (9, EXAMPLES)
    assert {len(one.before or "") for one in tally.examples} == {VALUE}
    wide = {f"f{n}": n for n in range(2 * FIELDS)}
    found = compared((done(wide), done(wide)))
    assert len(found.parts) == FIELDS
    assert found.left_out


def test_pages_that_could_not_be_tried() -> None:
    found = SpiderComparison("shop")
    problem = Tried(problem="its code went to a:1")
    assert found.take(PLACE, problem, problem)
    assert found.take(PLACE, tried(done()), Tried(problem="2 pages hung", left_out=True))
    assert (found.pages, found.left_out.total()) == (0, 2)
    assert not found.take(PLACE, tried(done()), problem)
    assert found.take(PLACE, tried(done()), problem, tried(done()))
    assert found.parts["errors"].gained == 1


def test_times_are_those_of_the_median_page() -> None:
    found = SpiderComparison("shop")
    assert found.times == (0.0, 0.0)
    for seconds in (1.0, 2.0, 30.0):
        found.take(PLACE, tried(done(), seconds), tried(done(), 2 * seconds))
    assert found.times == (2.0, 4.0)


def test_an_example_names_its_page_without_secrets() -> None:
    found = SpiderComparison("shop")
    place = Place(f"{URL}?token=1234567890abcdef&page=2", 7)
    page = tried(done({"a": 1})), tried(done({"a": None}))
    assert found.take(place, *page, page[0])
    (example,) = found.parts["items.a"].examples
    assert (example.url, example.kept) == (f"{URL}?token=stripped&page=2", 7)
