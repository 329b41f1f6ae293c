"""Attempt: a fetch of a page that is rendered if needed, and its lesson."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawlframe.base.stats import RUNNING
from crawlframe.render.knowledge import Knowledge, Lesson
from crawlframe.render.template import URLTemplate
from crawlframe.render.yielded import NOTHING, Reason, Yielded


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
