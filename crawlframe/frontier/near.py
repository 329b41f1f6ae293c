"""Near: the texts that were seen, so that a page is recognised that is nearly the same."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import NamedTuple

from crawlframe.frontier.client.batches import chunks
from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.rows import StorePart
from crawlframe.near.fingerprint import Fingerprint, NearStore

PAGE_MS = 90 * 24 * 3600_000  # ms for which a store without a task keeps its last writes
URL = 1000  # characters of a URL that are kept until the page is settled


class NearPage(NamedTuple):
    """A page. ``head``: the result of ``head_of`` of near/page.py. ``url``: of the page."""

    head: bytes
    fingerprint: Fingerprint
    url: str


class Like(NamedTuple):
    """A similar page. ``bits``: number of differing bits of the signatures. ``url``: "" if it has a
    row in the ledger by now; then ``head`` has the first bytes of its rid."""

    bits: int
    head: bytes
    url: str


class Near(StorePart):
    """Stores of compared pages. Each is in one partition, so simultaneous pages are compared in
    turn. Pages lost with Redis are just not recognised. Raises redis.RedisError."""

    def ask(self, store: NearStore, pages: Sequence[NearPage]) -> list[Like | None]:
        """The page that each of these pages resembles; None: none, so it is remembered. The answer
        is the same until the page is settled."""
        answers: list[Like | None] = []
        for some in chunks([*pages]):
            entries = [
                [
                    page.head,
                    struct.pack(f">{len(page.fingerprint.features)}I", *page.fingerprint.features),
                    page.fingerprint.signature,
                    page.url[:URL],
                ]
                for page in some
            ]
            found = self._store.run(
                "near",
                self._partition(store),
                store.key,
                store.task or "",
                store.limit,
                PAGE_MS,
                store.most,
                pack(entries),
            )
            answers += [_like(*one) for one in found]
        return answers

    def settle(self, store: NearStore, kept: Collection[bytes], dropped: Collection[bytes]) -> None:
        """Settles pages, by their heads, that have a row. Pages in ``dropped`` are not remembered:
        their requests ended as errors."""
        entries = [[head, 0] for head in kept] + [[head, 1] for head in dropped]
        for some in chunks(entries):
            self._store.run("near_end", self._partition(store), store.key, pack(some))

    def forget(self, store: NearStore) -> None:
        """Removes a store."""
        while not self._store.run("near_forget", self._partition(store), store.key):
            pass

    def _partition(self, store: NearStore) -> int:
        return self._store.partition_of(store.key)


def _like(bits: int, head: bytes = b"", url: bytes = b"") -> Like | None:
    return None if bits < 0 else Like(bits, head, url.decode("utf-8", "replace"))
