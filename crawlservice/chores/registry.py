"""The registry of chores. Only stewards import what it names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import BooleanField, Exists, ExpressionWrapper, Q
from django.utils.module_loading import import_string

from crawlservice.chores.chore import Chore
from crawlservice.models import Installation

# Each has a module ``chores`` with CHORES. In the order of a round: what the leading steward needs
# first, then the tasks, whose counts others use.
FEATURES = (
    "steward",
    "tasks",
    "hosts",
    "proxies",
    "scheduling",
    "watches",
    "webhooks",
    "alerts",
    "exports",
    "databases",
    "ledger",
    "pages",
)


def chores() -> list[Chore]:
    """All of them."""
    found: list[Chore] = []
    for feature in FEATURES:
        found += import_string(f"crawlservice.{feature}.chores.CHORES")
    return found


def used(asked: Iterable[Chore]) -> set[str]:
    """The names of those of the chores that have something to do. Raises django.db.Error."""
    names, columns = set[str](), dict[str, ExpressionWrapper[Any]]()
    for chore in asked:
        if chore.used is None:
            names.add(chore.name)
        else:
            some = reduce(or_, (Q(Exists(rows)) for rows in chore.used()))
            columns[chore.name] = ExpressionWrapper(some, BooleanField())
    if columns:
        numbered = {f"used_{number}": column for number, column in enumerate(columns.values())}
        answer = Installation.objects.filter(pk=1).annotate(**numbered).values_list(*numbered)
        found = answer.first() or [True] * len(columns)
        names |= {name for name, one in zip(columns, found, strict=True) if one}
    return names
