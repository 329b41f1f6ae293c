"""Kinds: which type a column of items has, in CSV, Parquet and tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Literal

MIN_INT, MAX_INT = -(2**63), 2**63 - 1  # range of whole numbers in a column

Kind = Literal["text", "integer", "number", "boolean", "json", ""]  # "": only empty values so far
Kinds = dict[str, Kind]  # of columns, in their order

NUMBERS: set[Kind] = {"integer", "number"}


def type_of(value: Any) -> str:
    """The type of a value that is not None: boolean, integer, number, text, list or object."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
        case _:
            return "object"


def kind_of(value: Any) -> Kind:
    """The kind of a value that is not None."""
    match type_of(value):
        case "boolean" | "number" | "text" as kind:
            return kind
        case "integer" if MIN_INT <= value <= MAX_INT:
            return "integer"
        case _:
            return "json"


def common(kinds: Iterable[Kind]) -> Kind:
    """The kind of a column with values of these kinds."""
    found = {kind for kind in kinds if kind}
    if found == NUMBERS:
        return "number"
    return found.pop() if len(found) == 1 else "json" if found else ""


def add(kinds: Kinds, rows: Iterable[Mapping[str, Any]]) -> None:
    """Extends ``kinds`` by the columns and values of these rows."""
    for row in rows:
        for name, value in row.items():
            known = kinds.setdefault(name, "")
            if value is not None and (found := kind_of(value)) != known:
                kinds[name] = common((known, found))


def as_kind(value: Any, kind: Kind) -> Any:
    """The value for a column of this kind; in one of kind json, JSON as text."""
    if value is None:
        return None
    if kind == "json":
        return json.dumps(value, ensure_ascii=False)
    return float(value) if kind == "number" else value
