"""Content codings; that downloaders leave them alone is in their contract."""

from __future__ import annotations

import asyncio
import gzip
import random
import runpy
import sys
import tracemalloc
import zlib
from collections.abc import Callable, Iterator

import brotli
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

from crawlframe.base import decoding as decoding_module
from crawlframe.base import deflate
from crawlframe.base.decoding import OUTPUT, Decoding, decode
from crawlframe.errors import BadEncoding, BodyTooLarge
from crawlframe.fetch.body.memory import SMALL_BODY, Account, TransferMemory
from crawlframe.fetch.journey.context import FetchContext, FetchLimits
from crawlframe.fetch.journey.journey import LARGE_BODY, Answer, Journey
from crawlframe.request.request import Request
from crawlframe.response.response import Response

URL = "http://h/"
CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("coding", CODINGS)
@settings(max_examples=30)
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
@settings(max_examples=40)
@given(junk=st.binary(min_size=1, max_size=200))
def test_junk_gives_bytes_or_a_named_error(coding: str, junk: bytes) -> None:
    try:
        assert len(decode(junk, coding, 1000, URL)) <= 1000
    except (BadEncoding, BodyTooLarge):
        pass


@pytest.mark.parametrize("coding", CODINGS)
def test_bomb_takes_no_more_memory_than_the_limit_allows(coding: str) -> None:
    zeros = bytes(1 << 24)
    bomb = brotli.compress(zeros, quality=1) if coding == "br" else CODINGS[coding](zeros)
    tracemalloc.start()
    try:
        with pytest.raises(BodyTooLarge):
            decode(bomb, coding, 1 << 20, URL)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
def test_myriads_of_empty_streams_are_refused(coding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding_module, "MAX_STREAMS", 100)
    empty = CODINGS[coding](b"")
    assert decode(empty * 100, coding, 1000, URL) == b""
    with pytest.raises(BadEncoding, match="streams"):
        decode(empty * 101, coding, 1000, URL)


def test_zstd_frame_that_wants_too_much_memory() -> None:
    parameter = zstd.CompressionParameter
    options: dict[int, int] = {parameter.window_log: 27, parameter.compression_level: 1}
    frame = zstd.ZstdCompressor(options=options)
    body = frame.compress(b"x" * 1000) + frame.flush()
    with pytest.raises(BadEncoding, match="zstd"):
        decode(body, "zstd", 1 << 20, URL)


@pytest.mark.parametrize("coding", CODINGS)
@settings(max_examples=8)
@given(sizes=st.lists(st.integers(0, 400_000), min_size=1, max_size=4), step=st.integers(1, 2**20))
def test_steps_come_to_the_same(coding: str, sizes: list[int], step: int) -> None:
    body = b"".join(bytes([number]) * size for number, size in enumerate(sizes))
    decoding = Decoding(CODINGS[coding](body), coding, len(body), URL)
    before, steps = -1, 0
    while not decoding.advance(step):
        assert before < decoding.size  # each step brings something
        assert decoding.size < (steps + 1) * (step + 2 * OUTPUT)
        before, steps = decoding.size, steps + 1
    assert decoding.body == body


@pytest.mark.parametrize("coding", CODINGS)
def test_a_body_that_grows_is_decoded_once_and_counts_what_it_is(
    coding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the largest size that it might reach: many such bodies fit into the memory together."""
    size = 3 << 20
    sent = CODINGS[coding](bytes(size))
    assert len(sent) < LARGE_BODY
    begun: list[int] = []
    decoder = decoding_module._DECODERS[coding]

    def counted(body: bytes) -> Iterator[bytes]:
        begun.append(len(body))
        return decoder(body)

    monkeypatch.setitem(decoding_module._DECODERS, coding, counted)
    memory = TransferMemory(24 << 20)

    async def transfer(journey: Journey) -> Answer:
        return Answer(200, CIMultiDict({"Content-Encoding": coding}), sent)

    async def page() -> float:
        with memory.account() as account:
            journey = Journey(
                Request(URL),
                FetchLimits(max_body=32 << 20),
                {},
                context=FetchContext(account=account),
            )
            response = await journey.run(transfer)
            assert response.body == bytes(size)
            assert account.held == size
            return account.waited

    async def main() -> list[float]:
        return await asyncio.gather(*[page() for _ in range(5)])

    assert asyncio.run(main()) == [0.0] * 5
    assert begun == [len(sent)] * 5


@pytest.mark.parametrize(
    ("coding", "sent", "coded"),
    [
        ("gzip", gzip.compress(bytes(99)), "gzip"),
        ("other, gzip", gzip.compress(bytes(99)), "gzip"),
        ("gzip", gzip.compress(b"short"), None),
        ("gzip, br", brotli.compress(gzip.compress(bytes(99))), None),
        ("", bytes(99), None),
    ],
    # gzip has the time in it, and each process of the tests its own.
    ids=["gzip", "with an unknown one", "no shorter", "two", "none"],
)
def test_a_kept_page_has_its_body_as_it_was_sent(
    coding: str, sent: bytes, coded: str | None
) -> None:
    async def transfer(journey: Journey) -> Answer:
        return Answer(200, CIMultiDict({"Content-Encoding": coding} if coding else {}), sent)

    async def page(account: Account, keeps: bool) -> Response:
        context = FetchContext(account=account)
        return await Journey(Request(URL), FetchLimits(), {}, None, context, keeps=keeps).run(
            transfer
        )

    account = Account(TransferMemory())
    kept = asyncio.run(page(account, True)).coded
    assert (kept and kept.coding) == coded
    if kept:
        assert (kept.data, kept.body) == (sent, bytes(99))
    assert asyncio.run(page(account, False)).coded is None


def test_a_body_as_it_was_sent_is_counted() -> None:
    sent = gzip.compress(random.Random(1).randbytes(100_000) + bytes(10_000))

    async def transfer(journey: Journey) -> Answer:
        return Answer(200, CIMultiDict({"Content-Encoding": "gzip"}), sent)

    account = Account(TransferMemory())
    context = FetchContext(account=account)
    journey = Journey(Request(URL), FetchLimits(), {}, None, context, keeps=True)
    asyncio.run(journey.run(transfer))
    assert account.held == 110_000 + len(sent)


def test_bodies_that_grow_wait_for_each_other() -> None:
    """While its body is decoded, a transfer holds the decoded part."""
    size = 5 << 20
    sent = gzip.compress(bytes(size), 1)
    memory = TransferMemory(8 << 20)

    async def transfer(journey: Journey) -> Answer:
        return Answer(200, CIMultiDict({"Content-Encoding": "gzip"}), sent)

    async def page() -> int:
        with memory.account() as account:
            journey = Journey(
                Request(URL), FetchLimits(max_body=size), {}, context=FetchContext(account=account)
            )
            response = await journey.run(transfer)
            await asyncio.sleep(0.01)
            return len(response.body)

    async def main() -> list[int]:
        return await asyncio.gather(*[page() for _ in range(20)])

    assert asyncio.run(main()) == [size] * 20
    assert memory.held == 0
    assert memory.peak <= (8 << 20) + size + (2 << 20) + 20 * SMALL_BODY


TEXT = b"<p>hello " + b"world " * 2000


def test_without_a_wheel_of_isal_zlib_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "isal", None)
    found = runpy.run_path(deflate.__file__)
    assert found["compressobj"] is zlib.compressobj
    assert found["decompressobj"] is zlib.decompressobj
    assert found["error"] is zlib.error


RAW = zlib.compressobj(wbits=-15)


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("GZip", gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]) + b"junk"),
        ("deflate", RAW.compress(TEXT) + RAW.flush()),
        ("zstd", zstd.compress(TEXT[:50]) + zstd.compress(TEXT[50:])),
        ("made-up", TEXT),
    ],
    ids=["members", "raw", "frames", "unknown"],
)
def test_forms_that_servers_send(coding: str, body: bytes) -> None:
    assert decode(body, coding, len(TEXT), URL) == TEXT


def test_many_codings_are_refused() -> None:
    with pytest.raises(BadEncoding, match="5 content codings"):
        decode(gzip.compress(TEXT), "gzip, gzip, gzip, gzip, gzip", len(TEXT), URL)


def test_several_codings_undo_in_reverse() -> None:
    body = gzip.compress(brotli.compress(b"text"))
    assert decode(body, "br, identity,gzip", 100, URL) == b"text"


def test_limit_holds_between_codings_too() -> None:
    inner = gzip.compress(bytes(1 << 20), 0)
    with pytest.raises(BodyTooLarge):
        decode(gzip.compress(inner), "gzip, gzip", 1 << 19, URL)


def test_empty_body_needs_no_decoding() -> None:
    assert decode(b"", "gzip", 10, URL) == b""
