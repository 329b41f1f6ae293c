"""Content codings; how the downloaders use them is in test_contract.py."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from crawlframe.errors import BadEncoding, BodyTooLarge
from crawlframe.fetch.decoding import MAX_STREAMS, decode

URL = "http://h/"
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("coding", CODINGS)
@given(data=st.binary(max_size=300), times=st.integers(1, 3000))
def test_what_goes_in_comes_out(coding: str, data: bytes, times: int) -> None:
    body = data * times
    assert decode(CODINGS[coding](body), coding, len(body), URL) == body


@pytest.mark.parametrize("coding", CODINGS)
def test_limit_is_exact(coding: str) -> None:
    body = CODINGS[coding](bytes(200_000))
    assert len(decode(body, coding, 200_000, URL)) == 200_000
    with pytest.raises(BodyTooLarge, match=f"http://h/.*199999 bytes.*{coding}"):
        decode(body, coding, 199_999, URL)


@pytest.mark.parametrize("coding", CODINGS)
def test_every_cut_is_noticed(coding: str) -> None:
    body = CODINGS[coding](b"some text " * 20)
    for end in range(1, len(body)):
        with pytest.raises(BadEncoding, match="http://h/"):
            decode(body[:end], coding, 1000, URL)


@pytest.mark.parametrize("coding", CODINGS)
@given(junk=st.binary(min_size=1, max_size=200))
def test_junk_gives_bytes_or_a_named_error(coding: str, junk: bytes) -> None:
    try:
        assert len(decode(junk, coding, 1000, URL)) <= 1000
    except (BadEncoding, BodyTooLarge):
        pass


@pytest.mark.parametrize("coding", CODINGS)
def test_bomb_takes_no_more_memory_than_the_limit_allows(coding: str) -> None:
    zeros = bytes(1 << 25)
    bomb = brotli.compress(zeros, quality=1) if coding == "br" else CODINGS[coding](zeros)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            decode(bomb, coding, 1 << 20, URL)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_myriads_of_empty_streams_are_refused(coding: str) -> None:
    empty = CODINGS[coding](b"")
    assert decode(empty * MAX_STREAMS, coding, 1000, URL) == b""
    with pytest.raises(BadEncoding, match="streams"):
        decode(empty * (MAX_STREAMS + 1), coding, 1000, URL)


def test_zstd_frame_that_wants_too_much_memory() -> None:
    parameter = zstd.CompressionParameter
    options: dict[int, int] = {parameter.window_log: 27, parameter.compression_level: 1}
    frame = zstd.ZstdCompressor(options=options)
    body = frame.compress(b"x" * 1000) + frame.flush()
    with pytest.raises(BadEncoding, match="zstd"):
        decode(body, "zstd", 1 << 20, URL)


def test_several_codings_undo_in_reverse() -> None:
    body = gzip.compress(brotli.compress(b"text"))
    assert decode(body, "br, identity,gzip", 100, URL) == b"text"


def test_limit_holds_between_codings_too() -> None:
    inner = gzip.compress(bytes(1 << 20), 0)
    with pytest.raises(BodyTooLarge):
        decode(gzip.compress(inner), "gzip, gzip", 1 << 19, URL)


def test_empty_body_needs_no_decoding() -> None:
    assert decode(b"", "gzip", 10, URL) == b""
