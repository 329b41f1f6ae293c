"""``python -m benchmarks.near [DIRECTORY …]``"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.lab.chart import Line, Panel
from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.redis import RedisServer
from benchmarks.near.pages import Changes, Page, Words, changed_share, pages_of, sites, texts_of
from benchmarks.realweb.__main__ import DOCUMENTATION
from crawlframe.frontier.near import Like, Near, NearPage
from crawlframe.frontier.partitions import PartitionedStore
from crawlframe.near.fingerprint import (
    BITS,
    FEATURES,
    LIKENESS,
    MIN_WORDS,
    Fingerprint,
    bits_of,
    fingerprint_of,
)
from crawlframe.near.page import HEAD, NearStore
from crawlframe.near.text import visible_text, words_of

LEVELS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3)  # shares of changed words
TEMPLATES = (0, 150, 300, 450, 600)  # words around parts of 300
SITES, SIZE = 10, 150  # of each, and their pages
LIKENESSES = (LIKENESS, 0.65, 0.75, 0.85)
SIZES = (1_000, 10_000, 50_000, 100_000, 200_000)  # of a store
SAME = 0.2  # of the words changed: more are another page


class Asked(NamedTuple):
    found: list[Like | None]
    heads: list[bytes]


class Trial:
    """One store."""

    def __init__(self, near: Near, name: str, likeness: float = LIKENESS) -> None:
        self._near = near
        self.store = NearStore(0, name, 1_000_000, bits_of(likeness))

    def ask(self, prints: Sequence[Fingerprint], *, forget: bool = False) -> Asked:
        """``forget``: pages are not remembered, so that the next ones find the originals."""
        found, heads = [], []
        for one in prints:
            head = os.urandom(HEAD)
            found += self._near.ask(self.store, [NearPage(head, one, "")])
            self._near.settle(self.store, [] if forget else [head], [head] if forget else [])
            heads.append(head)
        return Asked(found, heads)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.near",
        description="Changes real pages, and counts which of them are recognised as nearly the "
        "same as the original, and which others wrongly; measures time and memory. Uses one "
        "half of the pages, or the other (--tune).",
    )
    parser.add_argument("directory", nargs="*", type=Path, help="Debian's manuals, if none")
    parser.add_argument("--tune", action="store_true", help="with the other half of the pages")
    parser.add_argument("--quick", action="store_true", help="a smaller store, fewer pages")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    directories = options.directory or [Path(name) for name in DOCUMENTATION]
    if missing := [path for path in directories if not path.is_dir()]:
        parser.error(f"no such directory: {', '.join(map(str, missing))}; install the package")
    try:
        return run("near", lambda work: measure(directories, options, work))
    except ValueError as error:
        parser.error(str(error))


def measure(directories: list[Path], options: argparse.Namespace, work: Path) -> int:
    pages = pages_of(directories)
    texts = texts_of(pages, MIN_WORDS)
    Random(7).shuffle(texts)
    vocabulary = [word for page in texts[:300] for word in page.words]
    texts = texts[: len(texts) // 2] if options.tune else texts[len(texts) // 2 :]
    if options.quick:
        texts = texts[:300]
    changes = Changes(Random(11 if options.tune else 12), vocabulary)
    say("near", f"{len(pages):,} pages; {len(texts):,} different texts are used")
    figures: dict[str, Any] = {"texts": len(texts)}
    with RedisServer(work / "redis") as redis:
        near = Near(PartitionedStore(redis.client))
        figures["levels"] = levels(near, texts, changes)
        figures["templates"] = templates(near, texts, changes)
        figures["fingerprints"] = fingerprints(pages[:: 8 if options.quick else 2])
        figures["stores"] = stores(near, redis, SIZES[:2] if options.quick else SIZES)
    lines = [
        Line(name, [(100 * float(level), row["recall"]) for level, row in rows.items()])
        for name, rows in figures["levels"].items()
    ]
    panel = Panel("found", "words changed, %", lines=lines, y="share")
    keep("near", figures, "Pages that are nearly the same", [panel], options.output)
    return 0


def levels(near: Near, texts: list[Page], changes: Changes) -> dict[str, Any]:
    """Recall and precision by the share of words that were changed."""
    prints = [_print(page.words) for page in texts]
    kinds: dict[str, Callable[[Words, float], Words]] = {
        "changed": changes.of,
        "changed and moved": lambda words, share: changes.of(words, share, moved=True),
    }
    found: dict[str, Any] = {}
    for likeness in LIKENESSES:
        trial = Trial(near, f"levels{likeness}", likeness)
        first = trial.ask(prints)
        kept = [n for n, like in enumerate(first.found) if like is None]
        if likeness == LIKENESS:
            _natural(texts, first)
        for kind, change in kinds.items():
            if kind != "changed" and likeness != LIKENESS:
                continue
            rows = found[f"{kind}, {likeness}"] = {}
            for level in LEVELS:
                asked = trial.ask(
                    [_print(change(texts[n].words, level)) or prints[n] for n in kept], forget=True
                )
                hits = [like.head for like in asked.found if like is not None]
                right = sum(
                    like is not None and like.head == first.heads[n]
                    for n, like in zip(kept, asked.found, strict=True)
                )
                rows[str(level)] = {
                    "recall": right / len(kept),
                    "precision": right / len(hits) if hits else 1.0,
                }
            say("near", f"{kind}, near_likeness {likeness}: done")
    show(
        f"Pages that were found to be nearly the same as their original; {len(texts):,} originals",
        [f"{level:.0%}" for level in LEVELS],
        [
            [name, *(f"{row['recall']:.3f} / {row['precision']:.3f}" for row in rows.values())]
            for name, rows in found.items()
        ],
        "Recall / precision, by words changed. The rows name near_likeness. A page is found "
        "wrongly if another page than its original is named.",
    )
    return found


def _natural(texts: list[Page], first: Asked) -> None:
    """What is found among the originals themselves."""
    place = {head: n for n, head in enumerate(first.heads)}
    shares = [
        changed_share(texts[n].words, texts[place[like.head]].words)
        for n, like in enumerate(first.found)
        if like is not None
    ]
    known = [share for share in shares if share is not None]
    say(
        "near",
        f"among the originals, {len(shares)} are nearly the same as an earlier one; of "
        f"{len(known)} that were compared word by word, {sum(s <= SAME for s in known)} differ in "
        f"{SAME:.0%} of the words or less, {sum(s > SAME for s in known)} in more "
        f"(at most {max(known, default=0):.0%})",
    )


def templates(near: Near, texts: list[Page], changes: Changes) -> dict[str, Any]:
    """Pages of one template with different contents: none is nearly the same as another."""
    found: dict[str, Any] = {}
    for likeness in LIKENESSES:
        for template in TEMPLATES:
            trial = Trial(near, f"templates{likeness},{template}", likeness)
            words = sites(texts, template, SITES, SIZE, Random(5))
            asked = trial.ask([_print(page) for page in words])
            wrong = sum(like is not None for like in asked.found)
            found.setdefault(str(likeness), {})[str(template)] = wrong / len(words)
        say("near", f"templates, near_likeness {likeness}: done")
    show(
        f"Pages of the same template that are taken for the same; {SITES} sites of {SIZE} pages",
        [f"{template / (template + 300):.0%} template" for template in TEMPLATES],
        [[name, *(f"{share:.2%}" for share in rows.values())] for name, rows in found.items()],
        "The rows name near_likeness.",
    )
    return found


def fingerprints(pages: list[bytes]) -> dict[str, float]:
    """Milliseconds of a processor for each page."""
    spent = dict.fromkeys(("text", "words", "fingerprint"), 0.0)
    size = words = 0
    for page in pages:
        began = time.thread_time()
        text = visible_text(page)
        read = time.thread_time()
        some = words_of(text)
        divided = time.thread_time()
        fingerprint_of(some)
        ended = time.thread_time()
        spent["text"] += read - began
        spent["words"] += divided - read
        spent["fingerprint"] += ended - divided
        size, words = size + len(page), words + len(some)
    each = {name: 1000 * seconds / len(pages) for name, seconds in spent.items()}
    each |= {"bytes": size / len(pages), "count": words / len(pages)}
    show(
        f"Milliseconds of a processor for a page of {each['bytes']:,.0f} bytes, "
        f"{each['count']:,.0f} words, on average",
        ["text", "words", "fingerprint", "sum"],
        [["ms", *(f"{each[name]:.3f}" for name in spent), f"{sum(each[n] for n in spent):.3f}"]],
    )
    return each


def stores(near: Near, redis: RedisServer, sizes: Sequence[int]) -> dict[str, Any]:
    """Memory and time of a store as it grows, with pages that have nothing in common."""
    chance, rows = Random(3), {}
    store, full = NearStore(0, "size", 1_000_000), 0
    for size in sizes:
        spent = worked = asked = 0.0
        while full < size:
            some = [_random(chance) for _ in range(min(20, size - full))]
            work, began = redis.cpu_seconds(), time.perf_counter()
            near.ask(store, some)
            near.settle(store, [page.head for page in some], [])
            spent += time.perf_counter() - began
            worked += redis.cpu_seconds() - work
            full, asked = full + len(some), asked + len(some)
        pages, used = near.memory(store)
        rows[str(size)] = {
            "bytes": used / pages,
            "ms": 1000 * spent / asked,
            "redis_ms": 1000 * worked / asked,
        }
        say("near", f"{size:,} pages: {used / pages:.1f} bytes each")
    show(
        "A store with so many pages",
        ["bytes a page", "ms of Redis's processor a page", "ms a page"],
        [
            [f"{int(size):,}", f"{r['bytes']:.1f}", f"{r['redis_ms']:.3f}", f"{r['ms']:.3f}"]
            for size, r in rows.items()
        ],
        "MEMORY USAGE of all its keys. Times of looking up and remembering, 20 pages in a call.",
    )
    return rows


def _random(chance: Random) -> NearPage:
    features = sorted(chance.randrange(1 << 27) for _ in range(FEATURES))
    found = Fingerprint(tuple(features), chance.randbytes(BITS // 8))
    return NearPage(chance.randbytes(HEAD), found, "http://a.example/")


def _print(words: Words) -> Any:
    return fingerprint_of(words)


if __name__ == "__main__":
    raise SystemExit(main())
