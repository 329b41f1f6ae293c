"""Captures for tests, and warcio's view of a segment."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from warcio.archiveiterator import ArchiveIterator

from crawlframe.warc import Capture, SegmentWriter

LARGE = 100  # one of so many pages needs several writes
AT = 1_800_000_000.123456
HTML = (("Content-Type", "text/html; charset=utf-8"),)


def page(number: int = 1, body: bytes | None = None, **fields: Any) -> Capture:
    if body is None:
        body = body_of_page(number)
    fields = {"headers": HTML, "sent": (("User-Agent", "test/1"),), **fields}
    fields = {"status": 200, "fetched_at": AT, **fields}
    return Capture(f"http://shop.test/{number}?q=1", body=body, **fields)


def body_of_page(number: int) -> bytes:
    """Always the same for a number: up to some 20,000 bytes, or 3 MB; no two are alike."""
    chance = random.Random(number)
    if number % LARGE == LARGE - 1:
        return chance.randbytes(3_000_000)
    words = [f"{chance.getrandbits(32):x}" for _ in range(chance.randrange(2000))]
    return f"<html><p>{number} {' '.join(words)}".encode() if words else b""


def writer(directory: Path, worker: int = 7, **options: Any) -> SegmentWriter:
    return SegmentWriter(directory, node="node-1", worker=worker, software="test/1", **options)


def judged(path: Path) -> list[Any]:
    """The records, as warcio reads them, with ``body``. All digests fit."""
    records = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            record.body = record.content_stream().read()
            assert record.digest_checker.passed is not False
            assert record.rec_headers.get_header("WARC-Record-ID")
            records.append(record)
    return records


def kinds(path: Path) -> list[str]:
    return [record.rec_type for record in judged(path)]
