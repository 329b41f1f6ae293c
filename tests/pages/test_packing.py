"""Bodies come back as they were, or the damage is found."""

from __future__ import annotations

import gzip
import random
import zlib

import brotli
import pytest

from crawlframe.errors import PageDamaged
from crawlframe.pages.stored import Packer, digest_of, unpack
from crawlframe.response.coded_body import CodedBody

MENU = "".join(f'<li class="menu-{n}"><a href="/part/{n}/">Part {n}</a></li>' for n in range(40))


def page(number: int) -> bytes:
    words = random.Random(number)
    text = " ".join(f"{words.getrandbits(24):x}" for _ in range(60))
    return f"<html><title>{number}</title><nav>{MENU}</nav><p>{text}</p></html>".encode()


@pytest.mark.parametrize("body", [b"", b"x", b"<p>1</p>" * 100_000, random.Random(1).randbytes(99)])
def test_a_body_comes_back(body: bytes) -> None:
    assert unpack(Packer().pack(body), len(body)) == body


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate"])
def test_a_body_is_stored_as_it_was_sent(coding: str) -> None:
    body = page(1)
    sent = {"gzip": gzip.compress, "br": brotli.compress, "deflate": zlib.compress}[coding](body)
    packed = Packer().pack(body, CodedBody(coding, sent, body))
    assert packed == coding.encode() + b":" + sent
    assert unpack(packed, len(body)) == body
    for wrong in (packed[:-1], packed[:20] + b"\0\0" + packed[22:], b"other:" + sent):
        with pytest.raises(PageDamaged, match="kept page"):
            unpack(wrong, len(body))
    with pytest.raises(PageDamaged, match="more than 5 bytes"):
        unpack(packed, 5)


def test_damage_is_found() -> None:
    packed = Packer().pack(page(1))
    for wrong in (packed[:-1], packed[:20] + b"\0\0" + packed[22:], b"nothing"):
        with pytest.raises(PageDamaged, match="kept page"):
            unpack(wrong, len(page(1)))
    with pytest.raises(PageDamaged, match="where 5 were stored"):
        unpack(packed, 5)


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(PageDamaged, match="has 1001 bytes"):
        unpack(Packer().pack(b"0" * (1 << 28)), 1_000)


def test_equal_bytes_have_equal_digests() -> None:
    assert digest_of(page(1)) == digest_of(page(1)) != digest_of(page(2))
    assert len(digest_of(b"")) == 32
