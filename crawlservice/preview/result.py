"""Preview: the result of two versions of the code on the same pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlframe.preview.comparison import SpiderComparison, Tally
from crawlframe.preview.rules import PreviewRules, Regression, name_of

LIVE = "live"  # in the place of a revision: the commit that the nodes run
ROWS = 200  # parts that differ, in one list
LINES = 60  # examples
NAMES = 20  # names and sentences of a stored report
VALUES = "unchanged, gained, lost, changed"  # numbers of values of a row
CHARS, URL = 100, 300  # characters of a name and of an address there


@dataclass
class Preview:
    """The result. ``before``, ``after``: the revisions. ``spiders``: those that were tried.
    ``same``: the number of spiders whose code is the same. ``untried``: spiders without a kept
    page, whose code differs. ``notes`` are for people. ``commit``: the new one; "" for the files
    as they are."""

    before: str
    after: str
    spiders: list[SpiderComparison] = field(default_factory=list)
    same: int = 0
    untried: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    regressions: list[Regression] = field(default_factory=list)
    commit: str = ""
    rules: PreviewRules = field(default_factory=PreviewRules)

    def judge(self) -> None:
        """Finds the regressions of the spiders as they are now."""
        self.regressions = [
            one for spider in self.spiders for one in self.rules.regressions(spider)
        ]

    @property
    def pages(self) -> int:
        return sum(one.pages for one in self.spiders)


class Row(NamedTuple):
    """A part that differs. ``fails``: whether it is an error by the rules."""

    spider: SpiderComparison
    part: str
    tally: Tally
    fails: bool

    @property
    def name(self) -> str:
        return name_of(self.part)

    @property
    def numbers(self) -> tuple[int, int, int, int]:
        one = self.tally
        return one.unchanged, one.gained, one.lost, one.changed


def rows_of(preview: Preview) -> list[Row]:
    """All parts that differ, by spider."""
    failing = {(one.spider, one.part) for one in preview.regressions}
    return [
        Row(spider, part, tally, (spider.spider, part) in failing)
        for spider in preview.spiders
        for part, tally in spider.differing.items()
    ]


def bounded(preview: Preview) -> dict[str, Any]:
    """JSON of at most some 300 KB, the errors first. ``rows``: parts that differ; ``more``: the
    number of those that are left out."""
    rows = sorted(rows_of(preview), key=lambda row: not row.fails)
    left = LINES
    shown = []
    for row in rows[:ROWS]:
        examples = row.tally.examples[:left]
        left -= len(examples)
        numbers = zip(VALUES.split(", "), row.numbers, strict=True)
        shown.append(
            {
                "spider": row.spider.spider,
                "part": row.name[:CHARS],
                "fails": row.fails,
                **dict(numbers),
                "examples": [one._replace(url=one.url[:URL])._asdict() for one in examples],
            }
        )
    problems = [f"{one.spider}: {one.problem}" for one in preview.spiders if one.problem]
    left_out = [
        f"{one.spider}: pages not compared: {number:,}, {why}"
        for one in preview.spiders
        for why, number in one.left_out.items()
    ]
    cut = [
        f"{one.spider}: of {one.pages:,} pages; it has errors whatever the others are like"
        for one in preview.spiders
        if one.is_cut
    ]
    told = [str(one) for one in preview.regressions if not one.part]
    notes = dict.fromkeys([*problems, *told, *cut, *preview.notes, *left_out])
    return {
        "spiders": len(preview.spiders),
        "same_code": preview.same,
        "rows": shown,
        "more": len(rows) - len(shown),
        "notes": [one[:URL] for one in notes][:NAMES],
        "untried": preview.untried[:NAMES],
    }
