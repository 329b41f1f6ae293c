"""Families: clusters of URLs against the templates that they were made of, and noise among them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from math import comb
from typing import NamedTuple

from crawlframe.noise.families import URLFamilies
from crawlframe.noise.samples import NoiseFamilies
from tests.noise.urls import Labelled

SAMPLED = 0.02  # of the URLs
WRONG = 0.05  # of the samples


class Clustering(NamedTuple):
    """``rand``: adjusted Rand index; ``families``: found, ``templates``: true ones; ``rate``: URLs
    a second of CPU time."""

    rand: float
    families: int
    templates: int
    rate: float


class Spread(NamedTuple):
    """Quality of noise found from samples; ``sampled``: their number."""

    precision: float
    recall: float
    sampled: int
    rate: float


def adjusted_rand(one: Sequence[object], other: Sequence[object]) -> float:
    """Returns the adjusted Rand index of two clusterings of the same things (Hubert and Arabie,
    1985): 1.0 if they are equal, about 0.0 for random ones."""
    pairs = sum(comb(n, 2) for n in Counter(zip(one, other, strict=True)).values())
    ours = sum(comb(n, 2) for n in Counter(one).values())
    theirs = sum(comb(n, 2) for n in Counter(other).values())
    expected = ours * theirs / max(1, comb(len(one), 2))
    most = (ours + theirs) / 2
    return (pairs - expected) / (most - expected) if most != expected else 1.0


def cluster(urls: Sequence[Labelled], make: Callable[[], URLFamilies] = URLFamilies) -> Clustering:
    """Returns how URLs are clustered."""
    start = time.process_time()
    found = make().add_all(one.url for one in urls)
    seconds = time.process_time() - start
    labels = [one.template for one in urls]
    return Clustering(
        adjusted_rand(found, labels), len(set(found)), len(set(labels)), len(urls) / seconds
    )


def spread(urls: Sequence[Labelled], seed: int = 1) -> Spread:
    """Returns how much of the noise is found when a few URLs, drawn by chance, are samples, some of
    them with the wrong label. Samples are not counted in the result."""
    rng = random.Random(seed)
    chosen = set(rng.sample(range(len(urls)), max(1, int(SAMPLED * len(urls)))))
    start = time.process_time()
    noise = NoiseFamilies()
    for at, one in enumerate(urls):
        if at in chosen:
            noise.sample(one.url, noise=one.noise != (rng.random() < WRONG))
        else:
            noise.families.add(one.url)
    noise.families.merge()
    found = [
        (bool(noise.reason(one.url)), one.noise) for at, one in enumerate(urls) if at not in chosen
    ]
    seconds = time.process_time() - start
    counts = Counter(found)
    hits = counts[True, True]
    return Spread(
        hits / max(1, hits + counts[True, False]),
        hits / max(1, hits + counts[False, True]),
        len(chosen),
        len(urls) / seconds,
    )
