"""JSON of bodies: as Python's json reads it, whatever APIs send."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlframe import Request
from crawlframe.base.exact_json import dumps, loads
from crawlframe.errors import NotJson, TooDeep
from crawlframe.items.encode import encode_item
from crawlframe.testing import make_response

# Bodies of APIs, right or wrong.
TEXTS = [
    "12345678901234567890123", "-12345678901234567890123", "18446744073709551616",
    "-9223372036854775809", "9223372036854775808", "9" * 4300, "9" * 4301, "-0", "-0.0", "0e0",
    "1E400", "-1e400", "1e-400", "1E+2", "0.1234567890123456789", "123456789012345678901234.5",
    "1e22", "1e23", "NaN", "Infinity", "-Infinity", "nan", "null", "Null", "True", "undefined",
    '{"a": 1, "a": 2}', '{"a": {"b": 1}, "a": {"c": 2}}', '{"": 1}',
    '"\\ud800"', '"\\udc00\\ud800"',
    '"\\ud83d\\ude00"', '"\ud800"', '"\\u0000"', '"a\x00b"', '"a\nb"', '"a\tb"', '"\x7f"',
    '"\u2028"', '"\\x41"', '"\\/"', "'a'", "[1,]", '{"a": 1,}', "{a: 1}", "// c\n1", "/* c */ 1",
    "#c\n1", "1 2", "1;", "[1]\n[2]", "null\x00", " \t\r\n1 ", "\x0c1", "1\u00a0", "01",
    "1.", ".5", "+1", "0x10", "1_0", "", "  ", "{",
    '{"a"', '"abc', ")]}',\n[1]", "callback([1])", "[" * 500 + "]" * 500,
]  # fmt: skip


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, also NaN, the sign of zero, and types."""
    return repr(one) == repr(other)


@pytest.mark.parametrize("text", TEXTS)
def test_a_body_is_read_as_pythons_json_reads_it(text: str) -> None:
    body = text.encode("utf-8", "surrogatepass")
    response = make_response(body=body, headers={"Content-Type": "application/json; charset=utf-8"})
    try:
        expected = json.loads(response.text)
    except ValueError:
        with pytest.raises(NotJson):
            response.json()
    else:
        assert same(response.json(), expected)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(10**40), 10**40) | st.floats()
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)  # fmt: skip


@pytest.mark.slow
@given(VALUES)
def test_values_of_all_kinds_are_read_and_written_exactly(value: Any) -> None:
    for is_ascii in (True, False):
        text = json.dumps(value, ensure_ascii=is_ascii)
        assert same(loads(text), json.loads(text))
    try:
        text = json.dumps(value, allow_nan=False)
    except ValueError:
        return  # NaN and infinities are not written
    assert same(loads(dumps(value)), json.loads(text))


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    response = make_response(body=body, headers={"Content-Type": "application/json"})
    try:
        response.json()
    except NotJson:
        with pytest.raises(ValueError, match=r"."):
            json.loads(response.text)


TOO_DEEP = 100_000  # levels, for every version of Python


def test_what_differs_from_python() -> None:
    """Bodies are decoded as text first: see docs/reference/spiders.md."""

    def read(body: bytes, charset: str = "") -> Any:
        kind = "application/json" + (charset and f"; charset={charset}")
        return make_response(body=body, headers={"Content-Type": kind}).json()

    assert read(b"\xef\xbb\xbf[1]") == [1]
    assert read('["ö"]'.encode("utf-16")) == ["ö"]
    assert read('["ö"]'.encode("latin-1"), "iso-8859-1") == ["ö"]
    assert read('["日本"]'.encode("shift_jis"), "shift_jis") == ["日本"]
    assert read(b'["a\xffb"]', "utf-8") == ["a\ufffdb"]
    with pytest.raises(TooDeep):
        read(b"[" * TOO_DEEP + b"]" * TOO_DEEP)
    with pytest.raises(TooDeep):
        read(b'{"a":' * TOO_DEEP + b"1" + b"}" * TOO_DEEP)
    with pytest.raises(TooDeep):
        make_response(body=b"[" * TOO_DEEP).jmespath("a")


def test_integers_stay_exact_in_requests_and_items() -> None:
    big = 12345678901234567890123
    assert Request("http://x.example", json={"after": big}).body == b'{"after":%d}' % big
    assert encode_item({"id": big, "deep": [{"n": -big}]}) == b'{"id":%d,"deep":[{"n":-%d}]}' % (
        big, big
    )  # fmt: skip
    response = make_response(json={"items": [{"id": big}]})
    found: list[object] = [*response.jmespath("items[].id").getall()]
    assert found == [big]
    assert math.isinf(loads("1E400"))
    assert loads(dumps(["\ud800ä", big])) == ["\ud800ä", big]
    assert dumps({"a": "ä\ud800"}) == '{"a":"ä\\ud800"}'.encode()
    assert encode_item({"a": [math.inf, math.nan, big]}) == b'{"a":[null,null,%d]}' % big
