"""The lines that are printed about projects."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from benchmarks.scrapy_projects.comparison import Compared
from benchmarks.scrapy_projects.projects import Project

SHOWN = 200  # characters of an item or a reason
_PLACE = re.compile(r"^\S+?([\w.-]+\.py):\d+: ")


def of_survey(project: Project, found: dict[str, Any], every: bool) -> Iterator[str]:
    """The lines for one project; ``every`` reason, or how often there is each."""
    if "failed" in found:
        yield f"{project.name}: {found['failed']}"
        return
    total, cannot, but = len(found["found"]), len(found["cannot"]), len(found["but"])
    tried, stopped = found["tried"], len(found["not_started"])
    yield (
        f"{project.name}: {total} spiders found, {len(found['by_scrapy'])} by Scrapy; "
        f"{tried - stopped} of {tried} start; {total - but - cannot} run, {but} run but, "
        f"{cannot} cannot"
    )
    for module, reason in found["broken"].items():
        yield f"    {module} does not load: {reason[:SHOWN]}"
    for name, reason in found["not_started"].items():
        also = found["not_by_scrapy"].get(name)
        same = f"; nor by Scrapy: {also[:SHOWN]}" if also else ""
        yield f"    {name} does not start: {reason[-SHOWN:]!r}{same!r}"
    for word, verdicts in (("cannot", found["cannot"]), ("but", found["but"])):
        if every:
            for name, reasons in verdicts.items():
                yield f"    {name}: {word}: {'; '.join(reasons)}"
            continue
        for reason, number in _kinds(verdicts.values()).most_common():
            yield f"    {word}, {number} spiders: {reason[:SHOWN]}"


def _kinds(reasons: Iterable[list[str]]) -> Counter[str]:
    """How many spiders have each reason, whatever its place."""
    made: Counter[str] = Counter()
    for one in reasons:
        made.update({_kind(reason) for reason in one})
    return made


def _kind(reason: str) -> str:
    bare = _PLACE.sub("", reason)
    return "state on self between callbacks" if " is changed in " in bare else bare


def of_comparison(one: Compared) -> Iterator[str]:
    """The lines for one crawl."""
    word = "equal" if one.equal else one.problem or "DIFFERENT"
    yield f"{one.crawl.project} {one.crawl.spider} ({one.crawl.kind}): {one.items} items, {word}"
    for name, lines in (("only Scrapy", one.missing), ("only Crawlframe", one.extra)):
        for line in lines[:2]:
            yield f"    {name}: {line[:1000]}"
    if not one.equal:
        for url, end in [*one.failed.items()][:5]:
            yield f"    {url}: {' '.join(end.split())[-2 * SHOWN :]}"


def summary(
    chosen: list[Project], surveys: dict[str, Any], compared: list[Compared]
) -> Iterator[str]:
    """The sums."""
    whole = [one for one in surveys.values() if "failed" not in one]
    if whole:
        found = sum(len(one["found"]) for one in whole)
        tried = sum(one["tried"] for one in whole)
        failed = sum(len(one["not_started"]) for one in whole)
        both = sum(len(one["not_by_scrapy"]) for one in whole)
        cannot = sum(len(one["cannot"]) for one in whole)
        free = sum(bool(one["found"]) and not one["cannot"] for one in whole)
        yield (
            f"{len(whole)} of {len(chosen)} projects: {found} spiders found; of {tried} started, "
            f"{tried - failed} start, {both} start by neither, {failed - both} only by Scrapy; "
            f'{cannot} spiders "cannot"; {free} projects have none'
        )
    if compared:
        kinds = len({one.crawl.kind for one in compared})
        yield (
            f"{len(compared)} spiders of {kinds} kinds crawled: "
            f"{sum(one.equal for one in compared)} with equal items"
        )
