"""Settings of single tasks: reads them from text, and checks them for a spider."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from django.utils.translation import gettext

from crawlframe.base import scrapy_names
from crawlframe.errors import ArgumentError
from crawlframe.spider.politeness_bounds import Bound, rougher
from crawlframe.spider.setting_tables import TABLES, flat, nested
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import SpiderInfo
from crawlframe.spider.task_settings import FIXED, OVERRIDABLE, overridden
from crawlservice.accounts.roles import User
from crawlservice.models import Task
from crawlservice.tasks.arguments.spider_arguments import accepted, from_text, storable
from crawlservice.tasks.labels import of_task

Schema = dict[str, Any]


@cache
def schema() -> Schema:
    """The JSON schema of the settings that a task may have of its own, tables by their parts,
    without defaults: those are the spider's."""
    found = msgspec.json.schema(SpiderSettings)["$defs"]
    own = found[SpiderSettings.__name__]["properties"]
    tables = {name: found[table.__name__]["properties"] for name, table in TABLES.items()}
    known = flat({name: tables.get(name, own[name]) for name in OVERRIDABLE})
    return {
        "properties": {
            name: {key: part for key, part in kind.items() if key != "default"}
            for name, kind in known.items()
        },
        "$defs": found,
    }


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """``["delay=2", "robots=false"]`` -> ``{"delay": 2.0, "robots": False}``. Raises
    ArgumentError."""
    texts: dict[str, str] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise ArgumentError(f"{pair!r} is not a setting; give name=value, such as delay=2")
        if name in texts:
            raise ArgumentError(f"setting {name!r} is given twice")
        texts[name] = text
    return nested({name: read(name, text) for name, text in texts.items()})


def read(name: str, text: str) -> Any:
    """The value of a setting, from text as it is typed. Raises ArgumentError."""
    known = schema()
    table = TABLES.get(name)
    kind = known["properties"].get(f"{name}.{table.PLAIN}" if table else name)
    if kind is None:
        raise ArgumentError(
            FIXED.get(name) or scrapy_names.misuse_in_settings({name: text}, known["properties"])
        )
    try:
        value = from_text(text, kind, known)
    except ValueError:
        wanted = accepted(kind, known)
        refusal = gettext("setting {name!r}: {value!r} is not accepted; give {wanted}")
        raise ArgumentError(refusal.format(name=name, value=text, wanted=wanted)) from None
    return int(value) if isinstance(value, float) and value.is_integer() else value


def check(info: SpiderInfo, given: Mapping[str, Any], user: User | None = None) -> SpiderSettings:
    """The settings of a task of this spider. ``user``: its submitter; None: a command or a
    schedule. A user that is no operator may make it gentler and cheaper than its spider is, not
    more. Raises ArgumentError."""
    if not storable(dict(given)):
        text = gettext("a setting has text that cannot be stored: {given}")
        raise ArgumentError(text.format(given=json.dumps(given)))
    asked = overridden(info.settings, given)
    if not may_be_rough(user):
        for name, bound in rougher(info.settings, asked).items():
            text = gettext(
                "setting {name!r} {must}, as its spider has it; only operators may go beyond that"
            )
            raise ArgumentError(text.format(name=name, must=words_of(bound)))
    return asked


def may_be_rough(user: User | None) -> bool:
    """Whether the user may make a task rougher, or more costly, than its spider is."""
    return user is None or user.has_perm("crawlservice.steer_task")


def words_of(bound: Bound) -> str:
    """ "must be at least 2": the words after the name of a setting."""
    value = bound.value
    if isinstance(value, tuple):
        value = ", ".join(map(str, value)) or gettext("nothing")
    elif bound.kind == "fixed" and not isinstance(value, str):
        value = gettext("unset") if value is None else json.dumps(value)
    elif isinstance(value, float):
        value = f"{value:g}"
    return {
        "min": gettext("must be at least {value}"),
        "max": gettext("must be at most {value}"),
        "max_or_zero": gettext("must be from 1 to {value}"),
        "subset": gettext("must have nothing but {value}"),
        "disjoint": gettext("must not have {value}"),
        "superset": gettext("must have {value}"),
        "fixed": gettext("must stay {value}"),
    }[bound.kind].format(value=value)


def problems(
    info: SpiderInfo, given: Mapping[str, Any], user: User | None = None
) -> dict[str, str]:
    """The problem of each setting, by its name; by "" the problem of all together."""
    found: dict[str, str] = {}
    for name, value in flat(given).items():
        try:
            check(info, nested({name: value}), user)
        except ArgumentError as error:
            found[name] = str(error)
    try:
        check(info, given, user)
    except ArgumentError as error:
        return found or {"": str(error)}
    return {}


def as_pairs(given: Mapping[str, Any]) -> list[str]:
    """``["delay=2", "robots=false"]``: as a command takes them."""
    return [
        f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in flat(given).items()
    ]


def detail(task: Task) -> dict[str, Any]:
    """The journal's entry about the settings and labels of a new task."""
    unverified = task.settings.get("unverified")  # hosts whose certificates are not verified
    found = {"settings": task.overrides, "labels": of_task(task.pk), "unverified": unverified}
    return {name: value for name, value in found.items() if value}
