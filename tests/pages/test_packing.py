"""Bodies come back as they were; a dictionary is made where it pays only."""

from __future__ import annotations

import random

import pytest

from crawlframe.errors import PageDamaged
from crawlframe.pages.packing import MAX_DICTIONARY, Packer, digest_of, train, unpack

MENU = "".join(f'<li class="menu-{n}"><a href="/part/{n}/">Part {n}</a></li>' for n in range(40))


def page(number: int) -> bytes:
    words = random.Random(number)
    text = " ".join(f"{words.getrandbits(24):x}" for _ in range(60))
    return f"<html><title>{number}</title><nav>{MENU}</nav><p>{text}</p></html>".encode()


@pytest.mark.parametrize("body", [b"", b"x", b"<p>1</p>" * 100_000, random.Random(1).randbytes(99)])
def test_a_body_comes_back(body: bytes) -> None:
    assert unpack(Packer().pack(body), len(body)) == body


def test_a_packer_is_used_again_and_with_several_dictionaries() -> None:
    packer, dictionaries = Packer(), [train([page(n) for n in range(k, k + 60)]) for k in (0, 500)]
    assert all(0 < len(one) <= MAX_DICTIONARY for one in dictionaries)
    for number, one in [*enumerate(dictionaries)] * 2:
        packed = packer.pack(page(7), (number, one))
        assert unpack(packed, len(page(7)), one) == page(7)
        assert len(packed) < 0.75 * len(packer.pack(page(7)))


def test_a_dictionary_that_does_not_pay_is_not_made() -> None:
    assert train([page(n) for n in range(19)]) == b""
    assert train([random.Random(n).randbytes(2_000) for n in range(60)]) == b""
    assert train([b""] * 60) == b""


def test_damage_is_found() -> None:
    packed = Packer().pack(page(1))
    for wrong in (packed[:-1], packed[:20] + b"\0\0" + packed[22:], b"nothing"):
        with pytest.raises(PageDamaged, match="kept page"):
            unpack(wrong, len(page(1)))
    with pytest.raises(PageDamaged, match="where 5 were stored"):
        unpack(packed, 5)
    dictionary = train([page(n) for n in range(60)])
    with pytest.raises(PageDamaged):
        unpack(Packer().pack(page(1), (1, dictionary)), len(page(1)))


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(PageDamaged, match="has 1001 bytes"):
        unpack(Packer().pack(b"0" * (1 << 28)), 1_000)


def test_equal_bytes_have_equal_digests() -> None:
    assert digest_of(page(1)) == digest_of(page(1)) != digest_of(page(2))
    assert len(digest_of(b"")) == 32
