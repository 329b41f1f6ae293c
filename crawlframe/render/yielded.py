"""Yielded: a callback's results for a page, and whether they are complete."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from crawlframe.base.stats import RUNNING
from crawlframe.render.knowledge import Knowledge, Lesson, URLTemplate


class Reason(StrEnum):
    """Why a page is rendered."""

    ASKED = "asked"  # needs_browser says so
    FAILED = "failed"  # the callback raised an exception
    MISSING = "missing"  # an item lacks a required field
    CLOSING = "closing"  # the callback closes the task
    NO_ITEMS = "no items"  # other pages of the template have some
    BARE = "bare"  # it has no items, and it is unknown whether others have


class Yielded(NamedTuple):
    """``missing``: whether an item lacks a required field, or was dropped by the class of the
    items."""

    items: int = 0
    links: int = 0
    missing: bool = False
    closing: bool = False


NOTHING = Yielded()


def reason_of(plain: Yielded, known: Knowledge) -> Reason | None:
    """Why a plain page must be rendered; None: it is complete."""
    if plain.missing:
        return Reason.MISSING
    if plain.closing:
        return Reason.CLOSING
    if plain.items:
        return None
    if known.items:
        return Reason.NO_ITEMS
    return None if known.accepts_bare() else Reason.BARE


def lesson_of(plain: Yielded, rendered: Yielded, reason: Reason) -> Lesson | None:
    """The lesson of a rendered page, compared with the plain page. Failures have none."""
    if reason is Reason.FAILED:
        return None
    if reason is Reason.ASKED:
        return Lesson.NEEDED
    if reason is Reason.MISSING:
        brought = rendered.items > plain.items or (rendered.items > 0 and not rendered.missing)
    else:
        brought = rendered.items > plain.items or rendered.links > plain.links
    if brought:
        return Lesson.NEEDED
    return Lesson.BARE_VAIN if reason is Reason.BARE else Lesson.VAIN


def lacks(items: Iterable[bytes], required: Collection[str]) -> bool:
    """Whether one of these items (JSON) has no value in a required field."""
    if not required:
        return False
    return any(_lacks(msgspec.json.decode(item), required) for item in items)


def _lacks(item: Any, required: Collection[str]) -> bool:
    return any(item.get(name) in (None, "", [], {}) for name in required)


class Taught(NamedTuple):
    """A page's lesson. ``items``: whether the page had any."""

    template: URLTemplate
    lesson: Lesson
    items: bool


@dataclass(slots=True)
class Attempt:
    """``reason``: why the page is rendered, after ``plain``; None: it is fetched plainly, or
    rendered ``direct``, by earlier knowledge. ``dropped``: items that pipelines or their class left
    out."""

    spider: str
    template: URLTemplate
    known: Knowledge
    reason: Reason | None = None
    plain: Yielded = NOTHING
    direct: bool = False
    dropped: int = 0
    lesson: Lesson | None = None

    @property
    def is_plain(self) -> bool:
        return self.reason is None and not self.direct


def note_incomplete() -> None:
    """The callback that runs leaves out an item that lacks a required field."""
    outcome = RUNNING.get(None)
    if outcome is not None:
        outcome.results.unfit = True
