"""Ranks of settings: how many people need each. The type of a setting says it, next to its
default."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, get_type_hints

EVERYDAY, NEEDED, TUNING = RANKS = ("everyday", "needed", "tuning")
T = TypeVar("T")
Everyday = Annotated[T, EVERYDAY]
Tuning = Annotated[T, TUNING]


def ranks_of(kind: type) -> dict[str, str]:
    """The rank of each field of a class."""
    return {name: _rank(hint) for name, hint in get_type_hints(kind, include_extras=True).items()}


def _rank(hint: Any) -> str:
    return next((one for one in getattr(hint, "__metadata__", ()) if one in RANKS), NEEDED)
