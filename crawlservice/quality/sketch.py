"""Sketches: summaries of many values in little space; two of the same kind can be merged.

A LogHistogram is a DDSketch (Masson, Rim and Lee, VLDB 2019), Distinct a bottom-k sketch, which is
also known as KMV, with counts, and Frequent the algorithm of Misra and Gries."""

from __future__ import annotations

import math
from hashlib import blake2b
from heapq import nsmallest

import msgspec

WIDTH = math.log(1.1)  # of a bucket: values are known to 5 %
BUCKETS = 400  # of one sign, for 1e-8 to 1e8
MAX_HASHES = 128  # smallest hashes of a field
KEPT_UNIQUE = 4096  # of a field whose values must be unique: exact up to so many values
FREQUENT = 24  # values with a count
HASHES = 2.0**64
ALL = 2**64 - 1  # the greatest hash


class LogHistogram(msgspec.Struct, array_like=True):
    """Counts of numbers in buckets whose limits grow by a factor. Bucket 0 is for zero; negative
    buckets are for negative numbers."""

    counts: dict[int, int] = {}

    def add(self, value: float) -> None:
        bucket = _bucket(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def merge(self, other: LogHistogram) -> None:
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def quantile(self, share: float) -> float:
        """Returns the value below which this share of the numbers is, to 5 %; 0.0 of none."""
        rank, passed = share * (self.total - 1), 0
        for bucket in sorted(self.counts):
            passed += self.counts[bucket]
            if passed > rank:
                return _middle(bucket)
        return 0.0


def _bucket(value: float) -> int:
    try:
        size = abs(float(value))
    except OverflowError:  # a whole number of hundreds of digits
        size = math.inf
    if not size > 1e-8:  # NaN, too
        return 0
    place = BUCKETS if math.isinf(size) else BUCKETS // 2 + round(math.log(size) / WIDTH)
    place = min(max(place, 1), BUCKETS)
    return place if value > 0 else -place


def _middle(bucket: int) -> float:
    size = math.exp((abs(bucket) - BUCKETS // 2) * WIDTH) if bucket else 0.0
    return size if bucket >= 0 else -size


def hash_of(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=8).digest())


class Distinct(msgspec.Struct, array_like=True):
    """The smallest hashes of values, each with its count. They are a fair sample of the distinct
    values, and a hash that is in it at the end has been since its first value."""

    kept: int = MAX_HASHES
    counts: dict[int, int] = {}
    most: int = ALL  # hashes above it are not kept

    def add(self, hash_: int) -> None:
        if hash_ > self.most:
            return
        counts = self.counts
        counts[hash_] = counts.get(hash_, 0) + 1
        if len(counts) > self.kept + self.kept // 4:
            self._shrink()

    def merge(self, other: Distinct) -> None:
        self.kept = max(self.kept, other.kept)
        self.most = min(self.most, other.most)
        for hash_, count in other.counts.items():
            self.counts[hash_] = self.counts.get(hash_, 0) + count
        if len(self.counts) > self.kept or self.most < ALL:
            self._shrink()

    def _shrink(self) -> None:
        smallest = nsmallest(self.kept, (one for one in self.counts if one <= self.most))
        if len(smallest) == self.kept:
            self.most = smallest[-1]
        self.counts = {hash_: self.counts[hash_] for hash_ in smallest}

    @property
    def estimate(self) -> float:
        """The number of distinct values: exact while all are kept."""
        return len(self.counts) / ((self.most + 1) / HASHES)

    @property
    def ratio(self) -> float:
        """Distinct values for each value: 1.0 if none occurs twice."""
        return len(self.counts) / sum(self.counts.values()) if self.counts else 0.0

    @property
    def repeated(self) -> int:
        """The number of kept values that occur more than once."""
        return sum(count > 1 for count in self.counts.values())


class Frequent(msgspec.Struct, array_like=True):
    """The most frequent values: each that is more than 1 of ``kept`` + 1 is there. Counts may be
    too low by ``lost``."""

    counts: dict[str, int] = {}
    lost: int = 0
    kept: int = FREQUENT

    def add(self, value: str) -> None:
        counts = self.counts
        if value in counts:
            counts[value] += 1
        elif len(counts) < self.kept:
            counts[value] = 1
        else:
            self._lower(1)

    def merge(self, other: Frequent) -> None:
        for value, count in other.counts.items():
            self.counts[value] = self.counts.get(value, 0) + count
        self.lost += other.lost
        if len(self.counts) > self.kept:
            self._lower(sorted(self.counts.values(), reverse=True)[self.kept])

    def _lower(self, count: int) -> None:
        self.lost += count
        self.counts = {value: n - count for value, n in self.counts.items() if n > count}

    @property
    def most(self) -> tuple[str, int]:
        """The most frequent value and its count; "" and 0 if there is none."""
        return max(self.counts.items(), key=lambda pair: pair[1], default=("", 0))
