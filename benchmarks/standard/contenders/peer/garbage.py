"""Garbage: an expert's change when garbage collection takes a quarter of the time."""

from __future__ import annotations

import gc

OFTEN = 700, 10, 10  # Python's own, for parsers that keep whole pages in cycles, as parsel does
RARELY = 50_000, 50, 50


def collect(thresholds: tuple[int, int, int]) -> None:
    """Freezes the imports, after which it is called: imported objects are never examined again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*thresholds)
