"""Setting tables: settings of spiders that have parts, such as ``ip = {"delay": 1}``. A value that
is no table stands for one of the parts. In text, a part is named ``ip.delay``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from crawlframe.base.limits import NotNegative
from crawlframe.base.scrapy_names import misuse_in_settings
from crawlframe.near.fingerprint import LIKENESS

WITHIN = "task"
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,59}")


class SettingTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """``PLAIN``: the part for which a plain value stands; "": there is no plain value."""

    PLAIN: ClassVar[str] = ""


class AddressSettings(SettingTable, frozen=True):
    """Limits of each IP address, for all its hosts together, over all nodes. 0 = no limit."""

    concurrency: NotNegative[int] = 0  # requests in flight
    delay: NotNegative[float] = 0.0  # seconds between two requests

    @property
    def limited(self) -> bool:
        """Whether there is a limit."""
        return bool(self.concurrency or self.delay)


class BrowserSettings(SettingTable, frozen=True):
    """The way a browser loads pages."""

    # Resources that are not loaded.
    block: tuple[Literal["images", "fonts", "media", "trackers"], ...] = (
        "images", "fonts", "media", "trackers",
    )  # fmt: skip
    # Seconds that a loaded page may continue to load, if the request has no actions.
    settle: NotNegative[float] = 2.0
    failure_pictures: bool = False  # keep a picture of the page if the request fails


class NearSettings(SettingTable, frozen=True):
    """The comparison of each page's text with earlier pages, and the treatment of a page that is
    nearly the same: "mark" notes in its row which page came first, "drop" does not run its
    callback, either."""

    PLAIN: ClassVar[str] = "action"

    action: Literal["off", "mark", "drop"] = "mark"
    within: str = WITHIN  # or "spider", or a name that several spiders share
    # Share of neighbouring words in common; more finds fewer.
    likeness: Annotated[float, msgspec.Meta(ge=0.5, le=1)] = LIKENESS
    # Pages that are remembered, the last ones; some 40 bytes each. Records number them by 24 bits.
    limit: Annotated[int, msgspec.Meta(ge=1_000, le=16_000_000)] = 1_000_000

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.within):
            raise ValueError(
                f"near_duplicates.within is {self.within!r}; it must be 'task', 'spider' or a name "
                "of up to 60 lower-case letters, digits, - and _"
            )


class ReuseSettings(SettingTable, frozen=True):
    """The kept pages that spare fetches and callbacks."""

    PLAIN: ClassVar[str] = "max_age"

    # Seconds for which a page that any task has fetched is not fetched again.
    max_age: NotNegative[float] = 0.0
    conditional: bool = False  # ask servers whether a page has changed since it was kept
    skip_unchanged: bool = False  # do not run callbacks of pages that have not


TABLES: dict[str, type[SettingTable]] = {
    "browser": BrowserSettings,
    "ip": AddressSettings,
    "near_duplicates": NearSettings,
    "reuse": ReuseSettings,
}


def wrong_names(given: Mapping[str, Any], known: Iterable[str]) -> str:
    """Mistakes in the names of settings and of their parts; "" if there are none."""
    known = [*known]
    return misuse_in_settings(given, known) or misuse_in_settings(flat(given), by_part(known))


def by_part(names: Iterable[str]) -> list[str]:
    """Names of settings, with the names of the parts in place of a table's."""
    parts = {name: dict.fromkeys(table.__struct_fields__) for name, table in TABLES.items()}
    return [*flat({name: parts.get(name, 0) for name in names})]


def merged(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others in their place: of a table, only the parts that are given."""
    found = {**own, **given}
    for name in TABLES.keys() & given.keys():
        value, plain = given[name], TABLES[name].PLAIN
        if plain and not isinstance(value, Mapping):
            value = {plain: value}
        if isinstance(value, Mapping):
            found[name] = {**own.get(name, {}), **value}
    return found


def flat(given: Mapping[str, Any]) -> dict[str, Any]:
    """``{"ip": {"delay": 1}}`` -> ``{"ip.delay": 1}``"""
    found: dict[str, Any] = {}
    for name, value in merged({}, given).items():
        if name in TABLES and isinstance(value, Mapping):
            found |= {f"{name}.{part}": one for part, one in value.items()}
        else:
            found[name] = value
    return found


def nested(given: Mapping[str, Any]) -> dict[str, Any]:
    """``{"ip.delay": 1}`` -> ``{"ip": {"delay": 1}}``"""
    found: dict[str, Any] = {}
    for name, value in given.items():
        table, dot, part = name.partition(".")
        found = merged(found, {table: {part: value} if dot else value})
    return found
