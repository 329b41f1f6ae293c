"""Rules of quality: a run, the expectations of its author and the norms of good runs become
deviations. Nothing else is read, so that equal arguments give equal deviations."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, pairwise
from statistics import stdev
from typing import NamedTuple

from crawlframe.base.expect import Expect
from crawlservice.quality.deviation import Deviation, difference, text_difference
from crawlservice.quality.limits import (
    LETTERS,
    LETTERS_N,
    PART_SHARE,
    RULES,
    SPREADS,
    WORDS,
    Limits,
    evidence,
    highest,
    is_beyond,
    limits_of,
    lowest,
)
from crawlservice.quality.metrics import Key, Metric, metrics
from crawlservice.quality.norms import Norm, Norms, Totals, norm_of
from crawlservice.quality.profile import Content
from crawlservice.quality.run import BLOCK, TOKENS, RunStats, absent, word_shares
from crawlservice.quality.texts import distance, overlap, shares

WIDE_TOTAL = 3.5  # standard deviations of the good runs within which a total is usual
SETTLED_RUNS = 6  # runs from which their spread is known
WEEK = 8  # runs from which their seasons are known
UNSURE_RATIO = 1.5  # factor of the spread until then
UNSURE_RUNS = 6  # good runs with which the least difference in items per page is twice as large
SHORT_SECONDS = 60.0  # seconds that a run must be longer than usual


def deviations(
    run: RunStats,
    norms: Norms,
    expect: Expect,
    *,
    totals: Totals,
    ended: bool,
    expected_pages: int = 0,
) -> list[Deviation]:
    """``totals``: of the run so far. ``expected_pages``: how many it will have at least, as far as
    known. While the run continues, only deviations are found that can no longer become right, or
    that no part of a good run had."""
    content = run.content()
    found = [*_expectations(content, expect, totals, ended=ended, pages=expected_pages)]
    if expect.monitors and norms.runs:
        # During the run, the latest part dates a fault best; at the end, the whole run counts.
        parts = [_of_latest(run, norms), _of_whole(run, content, norms, totals, ended)]
        for one in chain.from_iterable(reversed(parts) if ended else parts):
            if one.key[1:] not in {known.key[1:] for known in found}:
                found.append(one)
    return found


# -- expectations ---------------------------------------------------------------------------------


def _expectations(
    content: Content, expect: Expect, totals: Totals, *, ended: bool, pages: int
) -> Iterator[Deviation]:
    of = "expectation"
    if ended and totals.items < expect.items:
        yield Deviation(of, "items", unit="count", low=expect.items, seen=totals.items)
    if expect.within and totals.seconds is not None and totals.seconds > expect.within:
        yield Deviation(of, "duration", unit="seconds", high=expect.within, seen=totals.seconds)
    if expect.errors is not None and content.pages:
        share = content.errors / content.pages
        sure = lowest(share, content.pages) > expect.errors
        beyond = content.errors > expect.errors * max(pages, content.pages) if pages else sure
        if share > expect.errors if ended else (sure and beyond):
            yield Deviation(of, "errors", high=expect.errors, seen=share)
    for name, least in expect.fields.items():
        field = content.fields.get(name)
        share = field.filled / content.items if field and content.items else 0.0
        if content.items and (share < least if ended else highest(share, content.items) < least):
            yield Deviation(of, "filled", name, low=least, seen=share)
    for name in expect.unique:
        field = content.fields.get(name)
        if field and field.distinct.repeated:
            yield Deviation(of, "unique", name, low=1.0, seen=field.distinct.ratio)


# -- comparison with good runs --------------------------------------------------------------------


class Seen(NamedTuple):
    """``evidence``: the logarithm of the likelihood ratio against a value that is still usual."""

    found: Deviation
    evidence: float


def _of_latest(run: RunStats, norms: Norms) -> list[Deviation]:
    """Every stretch that ends now is judged, so that a fault is seen soon after it began, whenever
    that was: each metric once, from the stretch that deviates most from the norm.

    To look for the stretch that deviates most, instead of at the whole run, is the procedure of
    Lorden (Procedures for Reacting to a Change in Distribution, Annals of Mathematical Statistics
    42, 1971). The norms of a stretch are the extremes of the steps of the good runs, which know how
    much the order of pages matters."""
    usual = {
        key: norm
        for key, norm in norms.metrics.items()
        if key in norms.steps and (norms.alike or not RULES[key.monitor].alike)
    }
    best: dict[tuple[str, ...], Seen] = {}
    for latest in (run.latest_items, run.latest_pages):
        for at, content in latest.stretches():
            since = None if _is_all(run, content) else at
            seen = [*_of_stretch(content, usual, norms, since)]
            if norms.alike:
                seen += _texts(content, norms, BLOCK, since, whole=False)
            for one in seen:
                if one.evidence >= best.get(one.found.key, one).evidence:
                    best[one.found.key] = one
    return [one.found for one in best.values()]


def _of_stretch(
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
        metric = _with_scatter(key, metric, norms.scatter)
        limits = limits_of(rule, norm, whole=False)
        if is_beyond(metric, limits):
            found = difference(key, rule, norm, limits, metric.value, since)
            yield Seen(found, evidence(metric, limits))


def _is_all(run: RunStats, content: Content) -> bool:
    """Whether it is all that was read of the run: all items, or all pages."""
    if content.items:
        return content.items == run.items_read
    return content.pages == run.pages_read


def _with_scatter(key: Key, metric: Metric, scatter: float) -> Metric:
    """The yield of pages is as uncertain as the pages of good runs are different."""
    if key.monitor != "yield":
        return metric
    return metric._replace(error=max(0.02, scatter / math.sqrt(metric.n)))


def _of_whole(
    run: RunStats, content: Content, norms: Norms, totals: Totals, ended: bool
) -> Iterator[Deviation]:
    current = metrics(content)
    enough = _enough(norms, ended)
    for key, norm in norms.metrics.items():
        rule = RULES[key.monitor]
        if (rule.alike and not norms.alike) or (key.monitor == "choice" and not ended):
            continue
        metric = current.get(key) or absent(key, content)
        if metric is not None and metric.n >= enough:
            metric = _with_scatter(key, metric, norms.scatter)
            limits = limits_of(rule, norm, whole=ended)
            some = 3 if key.monitor == "section" else 10
            gone = rule.gone and ended and _is_gone(metric, norm, some)
            if gone or is_beyond(metric, limits):
                yield difference(key, rule, norm, limits, metric.value, _since(run, key, limits))
                continue
        if ended and key in norms.steps:
            yield from _of_steps(run, key, norm)
    for key, metric in current.items():  # metrics that no good run had
        if key.monitor == "status" and key not in norms.metrics and metric.n >= enough:
            norm = norm_of([0.0])
            limits = limits_of(RULES["status"], norm, whole=True)
            if is_beyond(metric, limits):
                yield difference(key, RULES["status"], norm, limits, metric.value, None)
    if norms.alike:
        yield from (one.found for one in _texts(content, norms, enough, None, whole=True))
        if ended:
            yield from _totals(norms, totals)


def _of_steps(run: RunStats, key: Key, norm: Norm) -> Iterator[Deviation]:
    """The step that is least like the steps of good runs, though the whole run is usual."""
    rule = RULES[key.monitor]
    known = run.steps.get("\n".join(key))
    if known is None:
        return
    if key.monitor == "yield":  # the steps of good runs show its noise
        least = norm.low - 2.2 * rule.floor
        if known.low < least and norm.low > norm.least - 4 * rule.floor:
            yield difference(key, rule, norm, (least, None), known.low, known.low_at)
    elif rule.unit == "share":
        limits = limits_of(rule, norm, whole=False)
        low, high = Metric(known.low, known.low_n), Metric(known.high, known.high_n)
        for metric, at in ((low, known.low_at), (high, known.high_at)):
            if metric.n and is_beyond(metric, limits):
                yield difference(key, rule, norm, limits, metric.value, at)
                return


def _enough(norms: Norms, ended: bool) -> float:
    """The number of values that suffice: in the first few, order is everything."""
    if ended:
        return 5
    usual = norm_of([one.items for one in norms.totals]).median if norms.alike else 1000
    return min(60.0, max(5.0, usual / 50))


def _is_gone(metric: Metric, norm: Norm, some: int) -> bool:
    """Whether a part of all good runs is not in a whole run that would have ``some`` of it."""
    steady = norm.least > norm.median / 2 and norm.median >= PART_SHARE
    return steady and metric.value == 0 and norm.median * metric.n >= some


def _since(run: RunStats, key: Key, limits: Limits) -> float | None:
    """When the step began that shows it most; None: so it was from the start, or it is unknown."""
    known = run.steps.get("\n".join(key))
    low, high = limits
    if known is None:
        return None
    if low is not None and known.low < low <= known.high:
        return known.low_at
    if high is not None and known.high > high >= known.low:
        return known.high_at
    return None


def _texts(
    content: Content, norms: Norms, enough: float, since: float | None, *, whole: bool
) -> Iterator[Seen]:
    """Letters and words of fields that are too different. ``whole``: of a whole run; else of a part
    of it, which may differ as much as the steps of good runs."""
    for name, usual in norms.texts.items():
        field = content.fields.get(name)
        if field is None or field.kinds.get("text", 0) < enough:
            continue
        letters, words = norms.steps.get(Key("letters", name)), norms.steps.get(Key("words", name))
        apart, common_least = max(LETTERS, 4 * usual.apart), usual.overlap / 3
        if not whole and letters:
            apart = max(1.5 * LETTERS, 2 * (1 - letters[0]))
        if not whole and words:
            common_least = min(common_least, words[0] / 2)
        if (whole or letters) and (number := sum(field.letters.values())):
            same = 1 - distance(shares(field.letters), usual.letters)
            if same + LETTERS_N / number < 1 - apart:
                found = text_difference("letters", name, 1 - apart, 1 - usual.apart, same, since)
                yield Seen(found, number * (1 - apart - same))
        if (whole or words) and usual.overlap >= WORDS and field.tokens >= TOKENS:
            common = min(1.0, overlap(word_shares(field), usual.words))
            if highest(common, field.tokens // 2) < common_least:
                found = text_difference("words", name, common_least, usual.overlap, common, since)
                yield Seen(found, field.tokens * (common_least - common))


def _totals(norms: Norms, totals: Totals) -> Iterator[Deviation]:
    for name, fall in (("items", 0.7), ("pages", 0.6)):
        before = [getattr(one, name) for one in norms.totals]
        low = _least(before, fall)
        if low is not None and getattr(totals, name) < low:
            usual = norm_of(before).median
            yield Deviation(
                "monitor", name, unit="count", low=low, usual=usual, seen=getattr(totals, name)
            )
    times = [one.seconds for one in norms.totals if one.seconds]
    if totals.seconds and len(times) >= len(norms.totals) // 2 + 1:
        norm = norm_of([math.log(one) for one in times])
        high = max(norm.median + max(math.log(2), SPREADS * norm.spread), norm.most + math.log(1.3))
        limit = math.exp(high)
        if totals.seconds > max(limit, math.exp(norm.median) + SHORT_SECONDS):
            usual = math.exp(norm.median)
            yield Deviation(
                "monitor", "duration", unit="seconds", high=limit, usual=usual, seen=totals.seconds
            )


def _least(before: list[int], fall: float) -> float | None:
    """The least total that is still usual: by the spread of the runs, or by the steps from one run
    to the next, which also fit sites that grow or have seasons. None if they say nothing."""
    if min(before) < 5:
        return None
    if len(before) < SETTLED_RUNS:
        fall *= 0.8
    logs = [math.log(value) for value in before]
    norm = norm_of(logs)
    noise = 1 / math.sqrt(before[0])  # of counting
    # A few totals may lie close together by chance, so that their deviation is used, too.
    spread = max(norm.spread, 0.8 * stdev(logs)) * (UNSURE_RATIO if len(before) < WEEK else 1)
    low = min(norm.median - max(-math.log(fall), WIDE_TOTAL * spread), norm.least - 0.1) - noise / 2
    steps = [abs(one - other) for one, other in pairwise(logs)]
    step = max(-math.log(fall), 1.4 * max(steps, default=0.0)) + noise
    return math.exp(max(low, logs[0] - step))
