"""Garbage: what an expert does who finds its collection to take a quarter of the time."""

from __future__ import annotations

import gc

OFTEN = 700, 10, 10  # Python's own, for what keeps whole pages in cycles, as parsel does
RARELY = 50_000, 50, 50


def collect(thresholds: tuple[int, int, int]) -> None:
    """To be called when everything is imported: that is never looked at again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)
