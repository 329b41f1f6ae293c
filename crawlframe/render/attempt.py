"""Attempt: one fetch of a page that is rendered if it must be, and what it teaches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from crawlframe.render.knowledge import Knowledge, Lesson
from crawlframe.render.template import Template
from crawlframe.render.yielded import NOTHING, Reason, Yielded


class Taught(NamedTuple):
    """What one page has taught. ``items``: whether it had any."""

    template: Template
    lesson: Lesson
    items: bool


@dataclass(slots=True)
class Attempt:
    """``reason``: why the page is rendered, after ``plain``; None: it is fetched plainly, or
    rendered ``direct``, because of what is known. ``unfit``: the class of the items has dropped
    one."""

    spider: str
    template: Template
    known: Knowledge
    reason: Reason | None = None
    plain: Yielded = NOTHING
    direct: bool = False
    unfit: bool = False
    lesson: Lesson | None = None

    @property
    def is_plain(self) -> bool:
        return self.reason is None and not self.direct
