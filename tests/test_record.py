"""Records with redirects: the rest of the record stays as it was, whatever is in it."""

from __future__ import annotations

from datetime import date

import msgpack
import pytest

from crawlframe.errors import BadRequest, MissingCode
from crawlframe.request.record import (
    Errand,
    Hop,
    errand_of,
    hops_of,
    read,
    read_head,
    with_errand,
    with_hops,
    without_errand,
    without_hops,
)
from crawlframe.request.request import Request

URL = "http://a.example/"
HOPS = [Hop(301, "http://b.example/"), Hop(302, "http://c.example/é")]
REQUESTS = [
    Request(URL),
    Request(URL, "page", method="POST", body=b"\x00\xff", headers={"A": "b"}, depth=3),
    Request(URL, timeout=3, handle=[404], session="s"),
    Request(URL, meta={"when": date(2026, 1, 2), "pairs": {(1, 2): {3, 4}}, "big": 1 << 80}),
]


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_record_with_redirects(request_: Request) -> None:
    record = request_.encode()
    longer = with_hops(record, HOPS[:1])
    longest = with_hops(longer, HOPS)
    assert len(record) < len(longer) < len(longest)
    assert (hops_of(record), hops_of(longer), hops_of(longest)) == ([], HOPS[:1], HOPS)
    for one in (longer, longest, without_hops(longest)):
        again = Request.decode(one)
        assert again == request_
        assert again.depth == request_.depth
        assert again.encode() == record
        assert read_head(one) == read_head(record)
    assert hops_of(without_hops(longest)) == []
    assert without_hops(record) is record


@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("hops", [[], HOPS])
def test_a_record_with_an_errand(request_: Request, hops: list[Hop]) -> None:
    record = with_hops(request_.encode(), hops) if hops else request_.encode()
    errand = Errand(f"{URL}robots.txt", "http://b.example/r", 1, "me/1", "curl", "a.example")
    away = with_errand(record, errand)
    further = with_errand(away, errand._replace(url="http://c", hops=2))
    assert (errand_of(record), errand_of(away)) == (None, errand)
    assert errand_of(further) == errand._replace(url="http://c", hops=2)
    assert len(away) > len(record)
    for one in (away, further):
        assert one[1] == 5, "older workers refuse it"
        assert without_errand(one) == record
        assert (hops_of(one), read_head(one)) == (hops, read_head(record))
        assert Request.decode(one) == request_
        assert errand_of(without_hops(one)) is None
        assert hops_of(without_hops(one)) == []


@pytest.mark.parametrize(
    "extra", [[], [{}], [5], [{"errand": 5}], [{"errand": []}], [{"errand": [1, 2, 3]}],
              [{"errand": [1, "a", "b", "c", "d", "e", "f"]}]]
)  # fmt: skip
def test_an_errand_that_cannot_be_read(extra: list[object]) -> None:
    record = msgpack.packb([5, URL, "", 0, *extra])
    with pytest.raises(BadRequest, match="cannot be read"):
        errand_of(record)
    without_hops(record)


def test_no_code_of_authors_is_needed() -> None:
    """The class of a value may be missing on the node that follows the redirect."""
    instance = msgpack.ExtType(11, msgpack.packb(["gone", "Gone", [{}]]))
    record = msgpack.packb([2, URL, "", 0, {"meta": {"a": instance}}])
    longer = with_hops(record, HOPS)
    assert hops_of(longer) == HOPS
    with pytest.raises(MissingCode):
        read(longer)
    assert without_hops(longer)[2:] == record[2:]


def test_older_workers_refuse_it() -> None:
    """They would fetch it from its start, at the expense of another host."""
    assert with_hops(Request(URL).encode(), HOPS)[1] == 4


@pytest.mark.parametrize(
    "extra", [[], [{}], [{"hops": 5}], [{"hops": [[301]]}], [{"hops": [[301, 5]]}], [5]]
)
def test_redirects_that_cannot_be_read(extra: list[object]) -> None:
    record = msgpack.packb([4, URL, "", 0, *extra])
    with pytest.raises(BadRequest, match="cannot be read"):
        hops_of(record)
    assert without_hops(record) == record or hops_of(without_hops(record)) == []
