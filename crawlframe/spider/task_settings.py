"""Overrides: settings of one task that replace its spider's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from crawlframe.base.limits import without_none
from crawlframe.base.type_words import in_words
from crawlframe.errors import ArgumentError
from crawlframe.request.checks import wrong_in_head
from crawlframe.request.downloader_names import misfit
from crawlframe.spider.setting_tables import flat, merged, wrong_names
from crawlframe.spider.settings import SpiderSettings

# Headers often carry secrets, which must not be in the row of a task.
FIXED = {
    "headers": "headers are set in the code of the spider; put secrets into arguments of type "
    "Secret or into the credentials of the host",
    "tls": "tls is set in the code of the spider, because it says whom to trust",
    "check": "check is set in the code of the spider; it is about versions of it, not about tasks",
    "render": "render is set in the code of the spider, which says when a page is incomplete; set "
    'downloader to "browser" to render every page of this task',
}
OVERRIDABLE = tuple(name for name in SpiderSettings.__struct_fields__ if name not in FIXED)
CEILING = 10**12  # of any number
MOST_SECONDS = 10**9
SECONDS = ("delay", "min_delay", "ip.delay", "timeout", "file_timeout", "time_limit")


def overridden(settings: SpiderSettings, overrides: Mapping[str, Any]) -> SpiderSettings:
    """Returns the settings of a task. A ``delay`` in seconds replaces the spider's ``min_delay``,
    too. Raises ArgumentError if there is no such setting, a value is wrong, or two settings do not
    fit together."""
    if not overrides:
        return settings
    for name in overrides:
        if name in FIXED:
            raise ArgumentError(f"settings of the task: {FIXED[name]}")
    if problem := wrong_names(overrides, OVERRIDABLE):
        raise ArgumentError(f"settings of the task: {problem}")
    values = without_none(overrides)
    for problem in impossible(values).values():
        raise ArgumentError(f"settings of the task: {problem}")
    chosen = values.get("downloader", settings.downloader)
    if chosen != settings.downloader and (problem := misfit(chosen)):
        raise ArgumentError(f"settings of the task: {problem}")
    own = msgspec.to_builtins(settings)
    if values.get("delay", "auto") != "auto":
        own.pop("min_delay", None)
    try:
        return msgspec.convert(merged(own, values), SpiderSettings)
    except msgspec.ValidationError as error:
        problem = in_words(error, SpiderSettings)
        raise ArgumentError(f"settings of the task: {problem}") from None


def impossible(values: Mapping[str, Any]) -> dict[str, str]:
    """Returns values that databases and clients cannot take, as messages by setting."""
    found = {}
    for name, value in flat(values).items():
        most = MOST_SECONDS if name in SECONDS else CEILING
        if isinstance(value, int | float) and not (math.isfinite(value) and value <= most):
            found[name] = f"{name} is {value}; it must be at most {most:,}"
    agent = values.get("user_agent")
    if isinstance(agent, str) and wrong_in_head({"User-Agent": agent}, {}):
        found["user_agent"] = (
            "user_agent has a line break or another character that is not allowed there"
        )
    return found
