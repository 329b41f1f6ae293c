"""Latest: judges every stretch of a run that ends now, so that a fault is seen soon after it began,
whenever that was.

To look for the stretch that deviates most, instead of at the whole run, is the procedure of Lorden
(Procedures for Reacting to a Change in Distribution, Annals of Mathematical Statistics 42, 1971).
The norms of a stretch are the extremes of short windows of the good runs, which know how much the
order of pages matters."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from crawlservice.quality.deviation import Deviation, difference, text_difference
from crawlservice.quality.limits import (
    LETTERS,
    LETTERS_N,
    RULES,
    WORDS,
    evidence,
    highest,
    is_beyond,
    limits_of,
)
from crawlservice.quality.metrics import Key, Metric, metrics
from crawlservice.quality.norms import Norm, Norms
from crawlservice.quality.profile import Content
from crawlservice.quality.recent import BLOCK
from crawlservice.quality.run import TOKENS, RunStats, absent, word_shares
from crawlservice.quality.texts import distance, overlap, shares

UNSURE_RUNS = 6  # good runs with which the least difference in items per page is twice as large


def of_latest(run: RunStats, norms: Norms) -> list[Deviation]:
    """Each metric once, from the stretch that deviates most from the norm."""
    usual = {
        key: norm._replace(low=min(norm.least, low), high=max(norm.most, high))
        for key, (low, high) in norms.steps.items()
        if (norm := norms.metrics.get(key)) and (norms.alike or not RULES[key.monitor].alike)
    }
    best: dict[tuple[str, ...], Seen] = {}
    for latest in (run.latest_items, run.latest_pages):
        for at, content in latest.stretches():
            since = None if _is_all(run, content) else at
            seen = [*_compared(content, usual, norms, since)]
            if norms.alike:
                seen += _texts(content, norms, since)
            for one in seen:
                if one.evidence >= best.get(one.found.key, one).evidence:
                    best[one.found.key] = one
    return [one.found for one in best.values()]


class Seen(NamedTuple):
    """``evidence``: the logarithm of the likelihood ratio against a value that is still usual."""

    found: Deviation
    evidence: float


def _compared(
    content: Content, usual: dict[Key, Norm], norms: Norms, since: float | None
) -> Iterator[Seen]:
    current = metrics(content)
    for key, norm in usual.items():
        rule = RULES[key.monitor]
        metric = current.get(key) or absent(key, content)
        if metric is None or metric.n < BLOCK:
            continue
        if key.monitor == "yield":  # of few runs, few last pages are known
            rule = rule._replace(floor=rule.floor * (1 + UNSURE_RUNS / norms.runs))
        metric = with_scatter(key, metric, norms.scatter)
        limits = limits_of(rule, norm, whole=False)
        if is_beyond(metric, limits):
            found = difference(key, rule, norm, limits, metric.value, since)
            yield Seen(found, evidence(metric, limits))


def _is_all(run: RunStats, content: Content) -> bool:
    """Whether it is all that was read of the run: all items, or all pages."""
    if content.items:
        return content.items == run.items_read
    return content.pages == run.pages_read


def with_scatter(key: Key, metric: Metric, scatter: float) -> Metric:
    """The yield of pages is as uncertain as the pages of good runs are different."""
    if key.monitor != "yield":
        return metric
    return metric._replace(error=max(0.02, scatter / math.sqrt(metric.n)))


def _texts(content: Content, norms: Norms, since: float | None) -> Iterator[Seen]:
    for name, usual in norms.texts.items():
        field = content.fields.get(name)
        if field is None or field.kinds.get("text", 0) < BLOCK:
            continue
        letters, words = norms.steps.get(Key("letters", name)), norms.steps.get(Key("words", name))
        if letters and (number := sum(field.letters.values())):
            least = 1 - max(1.5 * LETTERS, 2 * (1 - letters[0]))
            same = 1 - distance(shares(field.letters), usual.letters)
            if same + LETTERS_N / number < least:
                found = text_difference("letters", name, least, 1 - usual.apart, same, since)
                yield Seen(found, number * (least - same))
        if words and usual.overlap >= WORDS and field.tokens >= TOKENS:
            common = min(1.0, overlap(word_shares(field), usual.words))
            least = min(words[0] / 2, usual.overlap / 3)
            if highest(common, field.tokens // 2) < least:
                found = text_difference("words", name, least, usual.overlap, common, since)
                yield Seen(found, field.tokens * (least - common))
