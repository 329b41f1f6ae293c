"""Latest: judges every stretch of a run that ends now, so that a fault is seen soon after it began,
whenever that was.

To look for the stretch that speaks most against what is usual, instead of at all that was read, is
the procedure of Lorden (Procedures for Reacting to a Change in Distribution, Annals of Mathematical
Statistics 42, 1971). What is usual of a stretch are the extremes of short windows of the good runs,
which know how much the order of pages matters."""

from __future__ import annotations

import math
from collections.abc import Iterator

from crawlservice.quality.found import Found, difference
from crawlservice.quality.limits import (
    LETTERS,
    LETTERS_N,
    RULES,
    WORDS,
    highest,
    is_beyond,
    limits_of,
)
from crawlservice.quality.metrics import Key, Metric, metrics
from crawlservice.quality.norms import Norm, Norms
from crawlservice.quality.profile import Content
from crawlservice.quality.recent import BLOCK
from crawlservice.quality.run import TOKENS, Run, absent, word_shares
from crawlservice.quality.texts import distance, overlap, shares


def of_latest(run: Run, norms: Norms) -> Iterator[Found]:
    """Each metric once, from the shortest stretch in which it is not as usual."""
    usual = {
        key: norm._replace(low=min(norm.least, low), high=max(norm.most, high))
        for key, (low, high) in norms.steps.items()
        if (norm := norms.metrics.get(key)) and (norms.alike or not RULES[key.monitor].alike)
    }
    seen = set[tuple[str, ...]]()
    for latest in (run.latest_items, run.latest_pages):
        for at, content in latest.stretches():
            for one in _compared(content, usual, norms.scatter, at):
                if one.key not in seen:
                    seen.add(one.key)
                    yield one
            if norms.alike and content.items:
                for one in _texts(content, norms, at):
                    if one.key not in seen:
                        seen.add(one.key)
                        yield one


def _compared(
    content: Content, usual: dict[Key, Norm], scatter: float, at: float
) -> Iterator[Found]:
    current = metrics(content)
    for key, norm in usual.items():
        rule = RULES[key.monitor]
        metric = current.get(key) or absent(key, content)
        if metric is None or (metric.n < BLOCK and key.monitor != "yield"):
            continue
        limits = limits_of(rule, norm, whole=False)
        if is_beyond(with_scatter(key, metric, scatter), limits):
            yield difference(key, rule, norm, limits, metric.value, at)


def with_scatter(key: Key, metric: Metric, scatter: float) -> Metric:
    """The yield of pages is as uncertain as the pages of good runs are different."""
    if key.monitor != "yield":
        return metric
    return metric._replace(error=max(0.02, scatter / math.sqrt(metric.n)))


def _texts(content: Content, norms: Norms, at: float) -> Iterator[Found]:
    for name, usual in norms.texts.items():
        field = content.fields.get(name)
        if field is None or field.kinds.get("text", 0) < BLOCK:
            continue
        letters, words = norms.steps.get(Key("letters", name)), norms.steps.get(Key("words", name))
        if letters and (number := sum(field.letters.values())):
            least = 1 - max(1.5 * LETTERS, 2 * (1 - letters[0]))
            same = 1 - distance(shares(field.letters), usual.letters)
            if same + LETTERS_N / number < least:
                yield _text(Key("letters", name), least, 1 - usual.apart, same, at)
        if words and usual.overlap >= WORDS and field.tokens >= TOKENS:
            common = min(1.0, overlap(word_shares(field), usual.words))
            least = min(words[0] / 2, usual.overlap / 3)
            if highest(common, field.tokens // 2) < least:
                yield _text(Key("words", name), least, usual.overlap, common, at)


def _text(key: Key, low: float, usual: float, seen: float, at: float) -> Found:
    return Found("monitor", key.monitor, key.field, low=low, usual=usual, seen=seen, since=at)
