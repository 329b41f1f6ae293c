"""Records, judged by warcio, and read back."""

from __future__ import annotations

import hashlib
from base64 import b32encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crawlframe.warc import Capture, DirectoryArchive, Original, Redirection, records_in
from crawlframe.warc.records import date_of
from tests.warc.captures import AT, HTML, judged, page, writer

DATE = "2027-01-15T08:00:00.123456Z"


def sha1(body: bytes) -> str:
    return f"sha1:{b32encode(hashlib.sha1(body).digest()).decode()}"


def written(tmp_path: Path, *captures: Capture) -> list[Any]:
    """The records after the warcinfo, by warcio. Ours are the same."""
    segments = writer(tmp_path)
    segments.append(captures)
    segments.close()
    [path] = tmp_path.iterdir()
    records = judged(path)
    ours = [*records_in(DirectoryArchive(tmp_path), path.name)]
    assert [record.kind for record in ours] == [record.rec_type for record in records]
    assert [record.payload for record in ours] == [record.body for record in records]
    assert records[0].rec_type == "warcinfo"
    assert b"software: test/1\r\n" in records[0].body
    assert records[0].rec_headers.get_header("WARC-Filename") == path.name
    return records[1:]


def test_a_page_is_a_response_and_a_request(tmp_path: Path) -> None:
    body = b"<p>one"
    headers = (*HTML, ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"))
    capture = page(1, body, headers=headers, address="192.0.2.1")
    response, request = written(tmp_path, capture)
    of_response, of_request = response.rec_headers, request.rec_headers
    assert (response.rec_type, request.rec_type) == ("response", "request")
    assert of_response.protocol == "WARC/1.1"
    for header in (of_response, of_request):
        assert header.get_header("WARC-Target-URI") == "http://shop.test/1?q=1"
        assert header.get_header("WARC-Date") == DATE
        assert header.get_header("WARC-IP-Address") == "192.0.2.1"
    assert of_request.get_header("WARC-Concurrent-To") == of_response.get_header("WARC-Record-ID")
    assert of_response.get_header("WARC-Payload-Digest") == (sha1(body))
    assert of_response.get_header("WARC-Block-Digest") is None
    assert of_request.get_header("WARC-Block-Digest") is None
    assert response.http_headers.get_statuscode() == "200"
    assert response.http_headers.headers == [*headers, ("Content-Length", "6")]
    assert request.http_headers.statusline == "/1?q=1 HTTP/1.1"
    assert request.http_headers.protocol == "GET"
    assert request.http_headers.headers == [("Host", "shop.test"), ("User-Agent", "test/1")]


def test_a_request_may_have_a_body(tmp_path: Path) -> None:
    sent = (("host", "shop.test:81"), ("content-length", "99"))
    _, request = written(tmp_path, page(method="POST", sent=sent, sent_body=b"a=1"))
    assert request.http_headers.protocol == "POST"
    assert request.http_headers.headers == [("host", "shop.test:81"), ("Content-Length", "3")]
    assert request.body == b"a=1"


def test_what_was_undone_is_not_undone_again(tmp_path: Path) -> None:
    headers = (
        ("Content-Encoding", "br"), ("transfer-encoding", "chunked"), ("Content-Length", "3"),
        *HTML,
    )  # fmt: skip
    response, _ = written(tmp_path, page(1, b"not brotli, not chunked", headers=headers))
    assert response.body == b"not brotli, not chunked"
    assert response.http_headers.headers == [
        ("X-Orig-Content-Encoding", "br"), ("X-Orig-transfer-encoding", "chunked"),
        ("X-Orig-Content-Length", "3"), *HTML, ("Content-Length", "23"),
    ]  # fmt: skip
    [path] = tmp_path.iterdir()
    stored = [*records_in(DirectoryArchive(tmp_path), path.name)][1]
    assert (stored.url, stored.status, stored.headers) == ("http://shop.test/1?q=1", 200, headers)


def test_equal_bytes_are_referred_to(tmp_path: Path) -> None:
    body = b"the same"
    original = Original("http://shop.test/first é", date_of(AT - 60))
    revisit, request = written(tmp_path, page(2, body, original=original, headers=HTML))
    header = revisit.rec_headers
    assert (revisit.rec_type, revisit.body, request.rec_type) == ("revisit", b"", "request")
    assert header.get_header("WARC-Profile") == (
        "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
    )
    assert header.get_header("WARC-Refers-To-Target-URI") == "http://shop.test/first%20%C3%A9"
    assert header.get_header("WARC-Refers-To-Date") == "2027-01-15T07:59:00.123456Z"
    digest = sha1(body)
    assert header.get_header("WARC-Payload-Digest") == digest
    assert revisit.http_headers.get_header("Content-Length") == "8"


def test_a_revisit_names_its_original_as_that_is_written(tmp_path: Path) -> None:
    first = page(1, b"x")
    again = replace(page(2, b"x"), original=Original(first.url, date_of(first.fetched_at)))
    response, _, revisit, _ = written(tmp_path, first, again)
    for ours, theirs in (
        ("WARC-Refers-To-Target-URI", "WARC-Target-URI"), ("WARC-Refers-To-Date", "WARC-Date"),
        ("WARC-Payload-Digest", "WARC-Payload-Digest"),
    ):  # fmt: skip
        expected = response.rec_headers.get_header(theirs)
        assert revisit.rec_headers.get_header(ours) == expected


def test_redirects_have_records_of_their_own(tmp_path: Path) -> None:
    hops = (
        Redirection("http://a.test/", 301, "http://b.test/"),
        Redirection("http://b.test/", 307, "x", (("location", "/x"), ("Server", "s"))),
    )
    _, _, first, second = written(tmp_path, page(redirects=hops))
    for record, hop in zip((first, second), hops, strict=True):
        assert record.rec_type == "response"
        assert record.rec_headers.get_header("WARC-Target-URI") == hop.url
        assert record.rec_headers.get_header("WARC-Truncated") == "unspecified"
        assert record.http_headers.get_statuscode() == str(hop.status)
        assert record.http_headers.get_header("Content-Length") == "0"
    assert first.http_headers.get_header("Location") == "http://b.test/"
    assert second.http_headers.headers[:2] == [("location", "/x"), ("Server", "s")]


def test_a_dom_is_no_response(tmp_path: Path) -> None:
    capture = page(1, b"<html>DOM", rendered=True, status=404, address="192.0.2.1")
    dom, request, metadata = written(tmp_path, capture)
    assert (dom.rec_type, request.rec_type, metadata.rec_type) == (
        "resource", "request", "metadata",
    )  # fmt: skip
    assert (dom.body, dom.content_type) == (b"<html>DOM", HTML[0][1])
    assert dom.rec_headers.get_header("WARC-IP-Address") is None
    assert metadata.rec_headers.get_header("WARC-Concurrent-To") == (
        dom.rec_headers.get_header("WARC-Record-ID")
    )
    assert metadata.body == (
        b"rendered: DOM of a browser\r\nstatus: 404\r\nip: 192.0.2.1\r\n"
        b"header-Content-Type: text/html; charset=utf-8\r\n"
    )


def test_a_body_that_was_cut_is_marked(tmp_path: Path) -> None:
    response, _ = written(tmp_path, page(truncated="length"))
    assert response.rec_headers.get_header("WARC-Truncated") == "length"
    with pytest.raises(ValueError, match="truncated is 'cut', not one of length, time"):
        page(truncated="cut")


@pytest.mark.parametrize("status", [100, 204, 299, 304, 404, 451, 599, 999])
def test_any_status_has_a_line_that_readers_know(tmp_path: Path, status: int) -> None:
    response, _ = written(tmp_path, page(1, b"body", status=status))
    assert response.http_headers.protocol == "HTTP/1.1"
    assert response.http_headers.get_statuscode() == str(status)
    assert response.body == b"body"


@pytest.mark.parametrize(
    ("header", "stored"),
    [
        (("X-Latin", "caf\xe9"), ("X-Latin", "caf\xe9")),
        (("X-Wide", "日本"), ("X-Wide", "日本".encode().decode("latin-1"))),
        (("X-Lone", "\ud800"), ("X-Lone", "?")),
        (("X-Line", "a\r\nX-Other: b"), ("X-Line", "a X-Other: b")),
        (("X-Line", "a\n\n\r\0b"), ("X-Line", "a b")),
        (("X-Na\r\nme", "a"), ("X-Name", "a")),
        (("X-Colons", "a: b:c"), ("X-Colons", "a: b:c")),
        (("X-Empty", ""), ("X-Empty", "")),
    ],
)
def test_odd_headers_stay_single_headers(
    tmp_path: Path, header: tuple[str, str], stored: tuple[str, str]
) -> None:
    headers = (("X-Before", "\xe9"), header, *HTML)
    response, request = written(tmp_path, page(1, b"body", headers=headers, sent=headers))
    expected = [("X-Before", "\xe9"), stored, *HTML]
    for record in (response, request):
        # warcio reads heads as UTF-8 where they are, which the wire does not say.
        assert [_of_bytes(*pair) for pair in record.http_headers.headers if pair[0][:1] != "H"][
            :3
        ] == [_of_bytes(*pair) for pair in expected]
    assert response.body == b"body"


def _of_bytes(name: str, value: str) -> tuple[str, bytes]:
    try:
        return name, value.encode("latin-1")
    except UnicodeEncodeError:
        return name, value.encode()


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("http://a.test/a b", "http://a.test/a%20b"),
        ("http://a.test/é?ü=日", "http://a.test/%C3%A9?%C3%BC=%E6%97%A5"),
        ("http://a.test/a\r\nWARC-Type: x", "http://a.test/a%0D%0AWARC-Type:%20x"),
        ("http://a.test/<>\"'|%2F%", "http://a.test/<>\"'|%2F%"),
        ("http://u:p@[::1]:81/", "http://u:p@[::1]:81/"),
        (f"http://a.test/{'x' * 70_000}", f"http://a.test/{'x' * 70_000}"),
    ],
)
def test_odd_urls_stay_one_line(tmp_path: Path, url: str, stored: str) -> None:
    response, request = written(tmp_path, replace(page(1, b"body"), url=url))
    for record in (response, request):
        assert record.rec_headers.get_header("WARC-Target-URI") == stored
    assert request.http_headers.statusline == f"/{stored.split('/', 3)[3]} HTTP/1.1"
    assert response.body == b"body"


@pytest.mark.parametrize("body", [b"", b"\r\n\r\n", b"WARC/1.1\r\n\r\n", b"\x1f\x8b\x08" * 9])
def test_any_body_is_kept_as_it_is(tmp_path: Path, body: bytes) -> None:
    [place, _] = writer(tmp_path).append([page(1, body), page(2, body)])
    assert DirectoryArchive(tmp_path).read(place).payload == body
