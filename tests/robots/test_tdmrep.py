"""tdmrep.json: the rule that counts for a page, and the reading of the file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crawlframe.robots.reading import DAY, HOUR, Fetched
from crawlframe.robots.state import Status
from crawlframe.robots.tdmrep import MAX_RULES, Reservation, TdmRules, judge_file

NOW = 1_800_000_000.0
FILE = json.dumps(
    [
        {"location": "/a/", "tdm-reservation": 1},
        {"location": "/b/images/*.jpg$", "tdm-reservation": 0},
        {"location": "/b/", "tdm-reservation": 1, "tdm-policy": "https://p.example/p.json"},
        {"location": "/c/*/x*y", "tdm-reservation": 1},
        {"location": "/%7Ed%2Fe", "tdm-reservation": "1"},
        {"location": "/f$", "tdm-reservation": 1},
        {"location": "/g"},
        {"tdm-reservation": 1},
        {"location": "/h", "tdm-reservation": 2},
        {"location": "/i", "tdm-reservation": 1, "tdm-policy": ["no URL"]},
        "no rule",
    ]
)
YES, NO = Reservation(True), Reservation(False)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a/", YES),
        ("a/b?c=d", YES),
        ("a", None),
        ("A/", None),
        ("b/images/x.jpg", NO),
        ("b/images/x.jpg?size=1", Reservation(True, "https://p.example/p.json")),
        ("b/x", Reservation(True, "https://p.example/p.json")),
        ("c/1/2/x3y4", YES),
        ("c/1/y/x", None),
        ("~d%2Fe", YES),
        ("~d/e", None),
        ("f", YES),
        ("f/", None),
        ("g", None),
        ("h", None),
        ("i", YES),
        ("", None),
    ],
)
def test_the_first_rule_that_matches_counts(path: str, expected: Reservation | None) -> None:
    assert TdmRules(FILE).find(f"https://a.example/{path}") == expected


@pytest.mark.parametrize("text", ["", "{}", "[", "null", '"x"', "[[]]", '[{"location": 1}]'])
def test_what_is_no_list_of_rules_has_none(text: str) -> None:
    assert TdmRules(text).find("https://a.example/") is None


def test_a_hostile_file_costs_little() -> None:
    rule = {"location": "/" + "*a" * 200 + "$", "tdm-reservation": 1}
    rules = TdmRules(json.dumps([rule] * (MAX_RULES + 9)))
    assert rules.find("https://a.example/" + "a" * 199) is None  # would not end if it tried all


@pytest.mark.parametrize(
    ("got", "status", "age"),
    [
        (Fetched(200, FILE.encode()), Status.RULES, DAY),
        (Fetched(200, b"\xef\xbb\xbf" + FILE.encode()), Status.RULES, DAY),
        (Fetched(200, FILE.encode(), max_age=2 * HOUR), Status.RULES, 2 * HOUR),
        (Fetched(200, FILE.encode(), max_age=0), Status.RULES, HOUR),
        (Fetched(200, b"<html>not found"), Status.NOT_TEXT, DAY),
        (Fetched(404), Status.NO_RULES, DAY),
        (Fetched(403), Status.NO_RULES, DAY),
        (Fetched(302, lost=True, detail="it redirects nowhere"), Status.NO_RULES, DAY),
        (Fetched(503), Status.NO_RULES, HOUR),
        (Fetched(429), Status.NO_RULES, HOUR),
        (Fetched(reason="timeout", detail="too slow"), Status.NO_RULES, HOUR),
    ],
)
def test_a_file_that_cannot_be_read_has_no_rules(got: Any, status: Status, age: float) -> None:
    state = judge_file(got, NOW)
    assert (state.status, state.known_until - NOW) == (status, age)
    assert bool(state.text) is (status is Status.RULES)
