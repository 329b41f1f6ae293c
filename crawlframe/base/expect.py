"""Expect: an author's expectations of the runs of a spider. They are published with the spider and
stored with each task, so that the service can judge a run without importing the spider."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from crawlframe.errors import did_you_mean

Action = Literal["alert", "pause", "cancel", "refuse"]
MOST_ITEMS = 10**15
ACTIONS: tuple[str, ...] = get_args(Action)


class Expect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """``expect = Expect(items=100, fields={"price": 0.98}, errors=0.05, unique="sku",
    within=3600)``

    ``items``: the least number of items. ``fields``: by field, the least share of items in which it
    has a value. ``errors``: the greatest share of pages that end in error. ``unique``: fields whose
    values may not repeat. ``within``: seconds after which the task must have ended. ``monitors``:
    whether a run is also compared with earlier ones. ``action`` on a broken expectation: "alert"
    only records it, "pause", "cancel", or "refuse", which also takes the nodes back to the code of
    the last good run."""

    items: int = 0
    fields: dict[str, float] = {}
    errors: float | None = None
    unique: tuple[str, ...] | str = ()
    within: float = 0.0
    monitors: bool = True
    action: Action = "alert"

    def __post_init__(self) -> None:
        if isinstance(self.unique, str):
            msgspec.structs.force_setattr(self, "unique", (self.unique,))
        elif isinstance(self.unique, list | set | frozenset):
            msgspec.structs.force_setattr(self, "unique", tuple(sorted(self.unique)))
        if problem := _problem(self):
            raise ValueError(f"expect: {problem}")
        msgspec.structs.force_setattr(self, "items", int(self.items))


def expectation(given: Any) -> Expect | None:
    """Returns the Expect of a spider's ``expect`` or a recipe's ``[expect]``; None if there is
    none. Raises ValueError, which names the key and the fix."""
    if given is None or isinstance(given, Expect):
        return given
    if not isinstance(given, Mapping):
        raise ValueError(f"expect must be Expect(...), such as Expect(items=100), not {given!r}")
    for key in given:
        if key not in Expect.__struct_fields__:
            near = did_you_mean(str(key), Expect.__struct_fields__)
            raise ValueError(f"expect: there is no key {key!r}{near or _known()}")
    return Expect(**given)


def _known() -> str:
    return f"; use {', '.join(Expect.__struct_fields__)}"


def _problem(expect: Any) -> str:
    items = expect.items
    if not is_number(items) or not 0 <= items <= MOST_ITEMS or items != int(items):
        return f"items is {items!r:.50}; give the least number of items, such as 100"
    if not isinstance(expect.fields, Mapping):
        return (
            f'fields is {expect.fields!r}; give a share for each field, such as {{"price": 0.98}}'
        )
    for name, share in expect.fields.items():
        if not _is_name(name):
            return f"fields: {name!r:.100} is not the name of a field"
        if not _is_share(share):
            return f"fields: {name} is {share!r}; give a share from 0 to 1, such as 0.98"
    if expect.errors is not None and not _is_share(expect.errors):
        return f"errors is {expect.errors!r}; give a share of the pages from 0 to 1, such as 0.05"
    if not isinstance(expect.unique, tuple) or not all(map(_is_name, expect.unique)):
        return f'unique is {expect.unique!r}; give names of fields, such as "sku"'
    if not is_number(expect.within) or expect.within < 0:
        return f"within is {expect.within!r}; give seconds, such as 3600"
    if not isinstance(expect.monitors, bool):
        return f"monitors is {expect.monitors!r}; give True or False"
    if expect.action not in ACTIONS:
        return f"action is {expect.action!r}; give one of {', '.join(ACTIONS)}"
    return ""


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) < float("inf")


def _is_name(value: Any) -> bool:
    """Whether the database can have it: no U+0000, no half of a character."""
    if not isinstance(value, str) or not value or "\0" in value:
        return False
    return value == value.encode("utf-8", "replace").decode()


def _is_share(value: Any) -> bool:
    return is_number(value) and 0 <= value <= 1
