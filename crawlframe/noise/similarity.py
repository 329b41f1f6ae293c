"""Similarity of URLs by their longest common subsequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from crawlframe.errors import ConfigError


def lcs() -> Callable[..., int]:
    """Returns rapidfuzz's length of the longest common subsequence of two sequences. Raises
    ConfigError if the extra is not installed."""
    try:
        from rapidfuzz.distance.LCSseq import similarity as length
    except ImportError:
        raise ConfigError(
            "families of URLs need the extra broad: pip install 'crawlframe[broad]'"
        ) from None
    return length


def similarity(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Returns the mean of LCS/|one| and LCS/|other|, 0.0 to 1.0, where LCS is the length of the
    longest common subsequence: the measure of 一种分布式爬虫引擎的URL抓取方法及系统 (a method and
    system for fetching URLs in a distributed crawler engine). 1.0 for two empty sequences."""
    if not one or not other:
        return float(not one and not other)
    common = lcs()(one, other)
    return (common / len(one) + common / len(other)) / 2
