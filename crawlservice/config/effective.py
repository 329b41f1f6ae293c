"""Effective settings: the value and the source of each setting."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from django.conf import settings

from crawlframe.base.ranks import NEEDED, RANKS, ranks_of
from crawlframe.base.secret import MASK, masked
from crawlframe.conf import PREFIX, Settings
from crawlframe.spider.setting_tables import flat
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import SpiderInfo
from crawlservice import project
from crawlservice.models import Task
from crawlservice.recipes.current import masked_headers
from crawlservice.tasks.spider_runs import look_up
from crawlservice.tasks.stored_limits import limits_as_written

# Sources.
DEFAULT, FILE, ENVIRONMENT = "default", ".env", "environment"
SPIDER, TASK, OPERATOR = "spider", "task", "operator"
SECRETS = ("SECRET", "PASSWORD")  # in names of variables
NEED_PAGES = ("reuse", "fetch_only")  # they imply keep = "all"
USUAL, SPIDER_RANKS = SpiderSettings().by_part(), ranks_of(SpiderSettings)


class Effective(NamedTuple):
    """``value`` is as JSON has it, with MASK for secrets; a part of a table is named ``ip.delay``.
    ``rank`` is one of RANKS."""

    name: str
    value: Any
    source: str
    rank: str

    @property
    def text(self) -> str:
        """The value as it is shown, on one line."""
        if isinstance(self.value, str):
            return self.value
        return json.dumps(self.value, ensure_ascii=False)


def of_process() -> list[Effective]:
    """The settings of nodes, the web and commands that this process was started with."""
    values = msgspec.to_builtins(settings.CRAWLFRAME, enc_hook=str)
    found = {
        PREFIX + name.upper(): (values[name], rank) for name, rank in ranks_of(Settings).items()
    }
    found |= {
        name: (os.environ.get(name, "").strip() or default, rank)
        for name, (default, rank) in settings.READ.items()
    }
    return in_order(
        Effective(name, _without_secrets(name, value), _source(name), rank)
        for name, (value, rank) in found.items()
    )


def of_spider(info: SpiderInfo) -> list[Effective]:
    """The settings of all tasks of a spider that have none of their own."""
    own = info.settings.by_part()
    shown = masked(masked_headers(own))
    found = {
        name: Effective(name, shown[name], SPIDER if value != USUAL[name] else DEFAULT, _rank(name))
        for name, value in own.items()
    }
    if info.settings.kept != info.settings.keep:
        found["keep"] = Effective("keep", info.settings.kept, _needs_pages(found), _rank("keep"))
    return in_order(found.values())


def of_task(task: Task, info: SpiderInfo | None) -> list[Effective]:
    """The settings of a task. ``info``: its spider as it is now; None: it is unknown, and so are
    the settings that the task has from it, without its limits."""
    given = flat(task.overrides)
    found = {} if info is None else {one.name: one for one in of_spider(info)}
    kept = found.pop("keep", None)
    limits = limits_as_written(task)
    if limits.get("delay") != "auto":
        found.pop("min_delay", None)  # it belongs to "auto"
    published = limits_as_written(Task(settings=task.published_limits or task.settings))
    for name, value in (masked(given) | limits).items():
        usual = DEFAULT if value == USUAL.get(name) else SPIDER
        source = TASK if name in given else usual
        if name == "keep" and source == SPIDER and (kept is None or kept.source != SPIDER):
            source = _needs_pages(found)
        source = OPERATOR if limits.get(name) != published.get(name) else source
        found[name] = Effective(name, value, source, _rank(name))
    found.setdefault("keep", Effective("keep", USUAL["keep"], DEFAULT, _rank("keep")))
    return in_order(found.values())


def changed_of(task: Task) -> list[Effective]:
    """The settings of a task that were set for it, as far as Redis knows its spider."""
    now = look_up(task.spider)
    return changed(of_task(task, now.info if now else None))


def in_order(found: Iterable[Effective]) -> list[Effective]:
    """The settings by rank, the everyday ones first."""
    return sorted(found, key=lambda one: RANKS.index(one.rank))


def changed(found: Iterable[Effective]) -> list[Effective]:
    """The settings whose value is no default."""
    return [one for one in found if one.source != DEFAULT]


def _needs_pages(found: Mapping[str, Effective]) -> str:
    """The setting that is on and implies ``keep``, as the source of that."""
    given = (one.name for one in found.values() if one.value != USUAL.get(one.name))
    names = (name.partition(".")[0] for name in given)
    return next((name for name in names if name in NEED_PAGES), SPIDER)


def _rank(name: str) -> str:
    """The rank of a setting of spiders, or of another limit; parts have their table's."""
    return SPIDER_RANKS.get(name.partition(".")[0], NEEDED)


def _source(variable: str) -> str:
    if variable in project.FROM_FILE:
        return FILE
    return ENVIRONMENT if os.environ.get(variable) else DEFAULT


def _without_secrets(variable: str, value: Any) -> Any:
    if value and any(word in variable for word in SECRETS):
        return MASK
    return masked(value)
