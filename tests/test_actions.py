"""Actions: their checks, and their form in a request."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from crawlframe import actions
from crawlframe.actions import Click, Fill, WaitFor, describe
from crawlframe.errors import BadRequest, MissingCode
from crawlframe.request import record
from crawlframe.request.options import read_options
from crawlframe.request.request import Request

URL = "http://example.com/a"
ALL: list[Any] = [
    {"do": "capture_json", "url": "/api/", "count": 2},
    {"do": "goto", "url": "/b"},
    {"do": "wait_for", "selector": ".card", "state": "attached"},
    {"do": "wait_for", "load": "networkidle"},
    {"do": "click", "selector": "#more", "count": 2},
    {"do": "fill", "selector": "#name", "text": "me"},
    {"do": "press", "key": "Enter"},
    {"do": "hover", "selector": "p"},
    {"do": "mouse", "x": 1, "y": 2.5, "click": True},
    {"do": "scroll_to_end", "times": 3},
    {"do": "evaluate", "script": "document.title"},
    {"do": "screenshot", "full_page": True},
    {"do": "pdf"},
]


def test_they_travel_with_the_request() -> None:
    made = Request(URL, actions=ALL)
    decoded = Request.decode(made.encode())
    assert decoded.options.actions == made.options.actions
    assert decoded == made
    assert decoded.downloader == "browser"
    assert [type(one).__struct_config__.tag for one in decoded.options.actions or ()] == [
        one["do"] for one in ALL
    ]


def test_objects_and_dicts_are_the_same() -> None:
    objects = Request(URL, actions=[Click("a", count=2), WaitFor(".b")])
    dicts: list[Any] = [
        {"do": "click", "selector": "a", "count": 2}, {"do": "wait_for", "selector": ".b"}
    ]  # fmt: skip
    assert objects == Request(URL, actions=dicts)


def test_with_other_actions_it_is_another_request() -> None:
    plain, first, second = (
        Request(URL, actions=given).fingerprint() for given in (None, [Click("a")], [Click("b")])
    )
    assert len({plain, first, second}) == 3
    assert plain == Request(URL).fingerprint()


def test_a_request_for_a_browser_waits_for_code_that_has_one() -> None:
    """Workers of an older release would fetch it with curl."""
    fields = msgpack.unpackb(Request(URL, downloader="browser").encode())
    assert fields[0] == record.OPTIONS
    assert "downloader" not in fields[4]
    with pytest.raises(MissingCode, match="browser"):
        read_options(URL, fields[4]["options"])
    assert Request.decode(Request(URL, downloader="browser").encode()).downloader == "browser"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("click", "must be a list of actions"),
        ({"do": "click"}, "must be a list of actions"),
        ([{"do": "clik", "selector": "a"}], "'clik'"),
        ([{"selector": "a"}], "do"),
        ([Click("a"), {"do": "click"}], "action 2"),
        ([{"do": "click", "selector": ""}], "selector"),
        ([{"do": "click", "selector": "a", "colour": 1}], "colour"),
        ([Click(7)], "selector"),  # type: ignore[arg-type]
        ([Click("a", timeout=0)], "timeout"),
        ([{"do": "wait_for"}], "wait_for needs a selector, or load"),
        ([WaitFor("a", state="gone")], "state"),  # type: ignore[arg-type]
        ([{"do": "screenshot", "quality": 101}], "quality"),
        ([Click("a")] * (actions.MAX_ACTIONS + 1), "the limit is"),
    ],
)
def test_mistakes_in_actions_are_named(given: Any, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        Request(URL, actions=given)
    assert words in str(caught.value)
    assert URL in str(caught.value)


def test_they_need_a_browser() -> None:
    with pytest.raises(BadRequest, match="actions need downloader='browser'"):
        Request(URL, actions=[Click("a")], downloader="curl")
    with pytest.raises(BadRequest, match="GET and POST"):
        Request(URL, downloader="browser", method="PUT")


def test_passwords_are_not_in_messages() -> None:
    assert "geheim" not in describe(Fill("#password", "geheim"))
