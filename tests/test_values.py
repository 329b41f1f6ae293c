"""A request as JSON comes back as the same request, with all types of its data."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from crawlframe import Request
from crawlframe.actions import Click
from crawlframe.errors import BadRequest, MissingCode
from crawlframe.request.values import request_of_json, request_to_json

URL = "https://a.example/"


class Colour(Enum):
    RED = 1


@dataclass
class Place:
    name: str
    at: tuple[int, int]


VALUES: dict[str, Any] = {
    "none": None,
    "list": [1, 2.5, True, "ä"],
    "tuple": (1, (2, 3)),
    "set": {1, 2},
    "frozenset": frozenset({"a"}),
    "bytes": b"\0\xff",
    "big": 1 << 80,
    "decimal": Decimal("1.50"),
    "day": date(2026, 1, 31),
    "moment": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "zoned": datetime(2026, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")),
    "time": time(12, 30),
    "span": timedelta(days=1, microseconds=3),
    "uuid": UUID(int=7),
    "enum": Colour.RED,
    "object": Place("x", (1, 2)),
    "keys": {1: "a", (2, 3): "b"},
    "marked": {"$bytes": "no"},
}


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back(name: str) -> None:
    request = Request(URL, "page", cb_kwargs={"value": VALUES[name]}, meta={name: VALUES[name]})
    given = json.loads(json.dumps(request_to_json(request)))
    again = request_of_json(given)
    assert again == request
    assert type(again.cb_kwargs["value"]) is type(VALUES[name])


def test_requests_come_back() -> None:
    for request in (
        Request(URL),
        Request(URL, method="PUT", body=b"\xff\0", errback="sorry", priority=3, dont_filter=True),
        Request(URL, form={"a": "ä"}, cookies={"c": "1"}, session="one", handle=[404, 500]),
        Request(URL, actions=[Click("#more")], timeout=3, retries=0, max_body=5, save=["image/*"]),
        Request(URL, json={"a": [1]}),
    ):
        assert request_of_json(json.loads(json.dumps(request_to_json(request)))) == request
    assert request_to_json(Request(URL, "page")) == {"url": URL, "callback": "page"}
    assert request_to_json(Request(URL, form={"a": 1}))["body"] == "a=1"


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({}, BadRequest, "url"),
        ({"url": 3}, BadRequest, "wrong type"),
        ({"url": URL, "body": {"$date": "2026-01-31"}}, BadRequest, "body must be text"),
        ({"url": URL, "meta": {"a": {"$nothing": 1}}}, BadRequest, "no kind of value"),
        ({"url": URL, "meta": {"a": {"$bytes": "?"}}}, BadRequest, "cannot be read"),
        ({"url": URL, "method": "G T"}, BadRequest, "method"),
    ],
)
def test_what_is_no_request_is_refused(
    given: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        request_of_json(given)


def test_a_class_that_is_gone_is_named() -> None:
    given = json.dumps(request_to_json(Request(URL, meta={"a": Place("x", (1, 2))})))
    with pytest.raises(MissingCode, match=r"class gone\.module\.Place"):
        request_of_json(json.loads(given.replace(__name__, "gone.module")))
