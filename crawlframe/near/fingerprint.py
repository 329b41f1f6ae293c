"""Fingerprint: the record of a page's text that finds texts that are nearly the same.

A text is a set: its pairs of neighbouring words. Two texts are alike by the share of pairs that
they have in common (Jaccard). A changed word changes two pairs, so a text with 10 % of the words
changed has about 0.7. Each pair is a number of 32 bits, and the order of the numbers is as good as
random.

The first numbers of a page are its features: most of them are first in a similar text, too, so a
shared feature finds the pair. The signature then estimates how alike they are: the numbers are
divided into bins, and one bit of the first number of each bin is kept (one permutation hashing with
one bit of each minimum: Li, Owen and Zhang, NIPS 2012; Li and König, WWW 2010). Bits of different
texts agree by chance in half of the bins.

The text of a page that is compared: its words, without markup, scripts and styles, and without
elements that are not its own: navigation, header, footer and asides."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple
from zlib import crc32

HEAD, PREFIX = 7, 4  # bytes that name a page, and how many of them start its rid
# Elements that are left out, and their ends.
_PARTS = (b"nav", b"header", b"footer", b"aside")
_NAMES = (b"script", b"style", b"template", b"noscript", b"head", b"svg", *_PARTS)
_OPTIONAL = {b"head", *_PARTS}  # without an end tag, the rest is shown
_HIDDEN = re.compile(rb"<(?:!--|(%s)(?=[\s/>]))" % b"|".join(_NAMES), re.IGNORECASE)
_ENDS = {name: re.compile(rb"</%s(?=[\s/>])[^>]*" % name, re.IGNORECASE) for name in _NAMES}
_COMMENT_END = re.compile(rb"--!?>")
_TAG = re.compile(rb"<[/!?a-zA-Z][^<>]*>?")
# Every byte that is in no word; letters of other scripts are bytes from 0x80 on.
_BLANKS = bytes(byte for byte in range(0x80) if not chr(byte).isalnum())
_TO_WORDS = bytes.maketrans(_BLANKS, b" " * len(_BLANKS))
# Scripts without spaces between words: each character is one.
_IDEOGRAPHS = re.compile("([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff])")
# Signs of Latin-1, general punctuation, East Asia and their wide forms, in UTF-8.
_SIGNS = re.compile(
    rb"\xc2[\x80-\xbf]|\xe2[\x80\x81].|\xe3\x80[\x80-\x9f]|\xef\xbc[\x81-\x8f\x9a-\xa0]", re.DOTALL
)
BITS = 112  # of a signature
FEATURES = 24  # of a page that are looked up
LIKENESS = 0.57  # share of pairs that texts have in common which are nearly the same
MIN_WORDS = 50  # a shorter text is not compared: a few words say little
MAX_WORDS = (
    20_000  # of a text that are read, the first ones: fewer would not stand moved paragraphs
)
_LEAST_NUMBERS = 1_200  # numbers, the least ones, that have some for each bin
# 2**32 divided by the golden ratio: spreads values that crc32 leaves in an order, such as numbers.
_STEP = 0x9E3779B1
_LOW = 0xFFFFFFFF


def bits_of(likeness: float) -> int:
    """Return in how many bits the signatures of two texts differ at most that have this share of
    pairs in common."""
    return int((1 - likeness) / 2 * BITS + 1e-6)


MOST_BITS = bits_of(LIKENESS)


class Fingerprint(NamedTuple):
    """``features``: numbers of 32 bits, the first ones first. ``signature``: BITS bits."""

    features: tuple[int, ...]
    signature: bytes


def fingerprint_of(words: Sequence[bytes]) -> Fingerprint | None:
    """Return the fingerprint of a text, or None if it has fewer than MIN_WORDS words."""
    if len(words) < MIN_WORDS:
        return None
    words = words[:MAX_WORDS]
    pairs = set(map(crc32, map(b" ".join, zip(words, islice(words, 1, None), strict=False))))
    numbers = [(pair * _STEP) & _LOW for pair in pairs]
    if len(numbers) > _LEAST_NUMBERS:  # the least of each bin is among these
        limit = (_LEAST_NUMBERS << 32) // len(numbers)
        numbers = [number for number in numbers if number < limit]
    numbers.sort(reverse=True)
    first = {number % BITS: number for number in numbers}  # the last number stays
    bits = 0
    for place in range(BITS):
        number, steps = first.get(place), 0
        while number is None:  # a short text leaves bins empty: another bin stands in
            steps += 1
            number = first.get((place + steps * steps) % BITS if steps < BITS else steps - BITS)
        bits |= ((number + steps * _STEP) >> 9 & 1) << place
    return Fingerprint(tuple(numbers[: -FEATURES - 1 : -1]), bits.to_bytes(BITS // 8, "little"))


def likeness(bits: int) -> float:
    """Return the estimated share of pairs that two texts have in common, whose signatures differ in
    so many bits."""
    return max(0.0, 1 - 2 * bits / BITS)


def visible_text(page: bytes) -> str:
    """Return the text of an HTML page in UTF-8, in linear time, without a parser: the text between
    its tags. A page that is not closed properly may lose some of it."""
    text = _TAG.sub(b" ", _without_hidden(page)).decode("utf-8", "replace")
    return html.unescape(text) if "&" in text else text


def words_of(text: str) -> list[bytes]:
    """Return the words of a text in lower case, in UTF-8."""
    text = text.lower()
    if text.isascii():
        return text.encode().translate(_TO_WORDS).split()
    if _IDEOGRAPHS.search(text):
        text = _IDEOGRAPHS.sub(r" \1 ", text)
    return _SIGNS.sub(b" ", text.encode("utf-8", "replace")).translate(_TO_WORDS).split()


def _without_hidden(page: bytes) -> bytes:
    parts, last, endless = [], 0, set()
    found = _HIDDEN.search(page)
    while found is not None:
        parts.append(page[last : found.start()])
        name = (found[1] or b"").lower()
        end = None
        if name not in endless:
            end = (_ENDS[name] if name else _COMMENT_END).search(page, found.end())
        if end is not None:
            last = end.end()
        elif name in _OPTIONAL:
            last = found.end()
            endless.add(name)  # each search reads the rest of the page
        else:
            last = len(page)
        found = _HIDDEN.search(page, last)
    return b" ".join([*parts, page[last:]])


class NearStore(NamedTuple):
    """The texts of the pages of a task, or (task 0) of all tasks that give its name. ``limit``:
    number of last pages that it remembers. ``most``: differing bits of signatures that still count
    as nearly the same."""

    task: int = 0
    name: str = ""
    limit: int = 1
    most: int = MOST_BITS

    @property
    def key(self) -> str:
        return f"t{self.task}" if self.task else f"n{self.name}"


class ComparedPage(NamedTuple):
    """A page that was compared. ``head``: the result of ``head_of``."""

    store: NearStore
    head: bytes


def head_of(rid: bytes, identity: bytes) -> bytes:
    """Return the name of a page in a store: the start of its rid, and of a hash of its identity in
    all tasks."""
    return rid[:PREFIX] + blake2b(identity, digest_size=HEAD - PREFIX).digest()
