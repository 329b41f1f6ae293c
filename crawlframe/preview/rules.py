"""Rules: which differences of a preview are errors, by preview.toml in the package of the
spiders."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from crawlframe.errors import CrawlframeError
from crawlframe.preview.comparison import (
    CHANGED,
    ERRORS,
    GAINED,
    ITEMS,
    LINKS,
    LOST,
    SpiderComparison,
    Tally,
)

NAME = "preview.toml"
SLOWER = 2.0  # times as long, from which a page counts as slower
MIN_SECONDS = 0.005  # seconds that the median page must take longer to count as slower

Fault = Literal["errors", "lost", "changed", "gained", "links", "slower"]


class RulesError(CrawlframeError):
    """preview.toml cannot be read."""


class Regression(NamedTuple):
    """A difference that is an error, in words."""

    spider: str
    part: str
    words: str

    def __str__(self) -> str:
        return f"{self.spider}{self.part and f'.{name_of(self.part)}'}: {self.words}"


class PreviewRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``fail``: the kinds of differences that are errors. ``only``, ``ignore``: patterns of
    ``spider.field`` that may be errors, and that are not compared.
    ``share``: of the values of a field that may be lost or changed without an error."""

    fail: tuple[Fault, ...] = ("errors", "lost")
    only: tuple[str, ...] = ("*",)
    ignore: tuple[str, ...] = ()
    share: float = 0.0

    @classmethod
    def read(cls, directory: Path | None) -> PreviewRules:
        """The rules in a package of spiders; the default without a file. Raises RulesError."""
        path = directory / NAME if directory is not None else None
        if path is None or not path.exists():
            return cls()
        try:
            return msgspec.convert(tomllib.loads(path.read_text("utf-8")), cls)
        except (OSError, ValueError) as error:
            raise RulesError(f"{path}: {error}; it may have fail, only, ignore and share") from None

    def ignores(self, spider: str) -> Callable[[str], bool]:
        """Returns whether a part of a spider is not compared."""

        @cache
        def ignored(part: str) -> bool:
            return _matches(spider, part, self.ignore)

        return ignored

    def regressions(self, spider: SpiderComparison) -> list[Regression]:
        """The differences of a spider that are errors."""
        if spider.problem:
            found = [Regression(spider.spider, "", spider.problem)] if "errors" in self.fail else []
            return found
        found = [
            Regression(spider.spider, part, _words(part, kind, tally, spider))
            for part, tally in spider.differing.items()
            for kind in self._kinds(part)
            if part in (ERRORS, ITEMS) or _matches(spider.spider, part, self.only)
            if tally.of(kind) > self.share * _base(tally)
        ]
        before, after = spider.times
        if "slower" in self.fail and is_slower(spider):
            words = f"a page takes {after * 1000:,.1f} ms, before {before * 1000:,.1f} ms"
            found.append(Regression(spider.spider, "", words))
        return found

    def fails_for_certain(self, spider: SpiderComparison) -> bool:
        """Whether a spider has errors, whatever its further pages are like."""
        if self.share:
            return False
        return any(spider.is_confirmed(one.part) for one in self.regressions(spider) if one.part)

    def unloaded(self, problems: Iterable[str], known: Sequence[str]) -> list[Regression]:
        """The errors of modules that do not load, unless a ``known`` text has them."""
        fresh = [one for one in problems if not any(one in text for text in known)]
        return [Regression("spiders", "", one) for one in fresh] if "errors" in self.fail else []

    def _kinds(self, part: str) -> Sequence[str]:
        """The kinds of changes of a part that are errors."""
        if part == ERRORS:  # one that is gained is a new one
            return [GAINED] if "errors" in self.fail else []
        if part == LINKS:
            return [LOST] if "links" in self.fail else []
        return [kind for kind in (LOST, CHANGED, GAINED) if kind in self.fail]


def name_of(part: str) -> str:
    """The name of a part for people: that of the field, or ``links``."""
    if part == LINKS:
        return "links"
    return part.removeprefix(f"{ITEMS}.") or "value"


def is_slower(spider: SpiderComparison) -> bool:
    """Whether its pages take much longer than before."""
    before, after = spider.times
    return after > SLOWER * before and after - before > MIN_SECONDS


def _base(tally: Tally) -> int:
    """The number of values that there were, and of new ones."""
    return tally.unchanged + tally.gained + tally.lost + tally.changed


def _matches(spider: str, part: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(f"{spider}.{name_of(part)}", pattern) for pattern in patterns)


def _words(part: str, kind: str, tally: Tally, spider: SpiderComparison) -> str:
    if part == ERRORS:
        return f"new on {tally.gained:,} of {spider.pages:,} pages"
    return f"{kind} {tally.of(kind):,} of {_base(tally):,}"
