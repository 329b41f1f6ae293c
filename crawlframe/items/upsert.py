"""Upsert: how items that are Django models are stored if their rows may exist already."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class Upsert:
    """Yielded around a model instance: ``yield Upsert(House(url=..., price=...), on="url")``. Or,
    for all items of a model, its class attribute ``upsert = Upsert(on="url")``.

    ``on``: names of fields that are unique together; a row with the same values is updated.
    ``newest`` says whether the item replaces such a row: the name of a field whose greater value
    wins, or a function of the stored and the new instance that returns True if the new one wins;
    without it, the last committed item wins. ``update``: names of the fields that are updated, by
    default all but ``on``, the primary key and fields with ``auto_now_add``. ``history``: each
    change is kept as a row of crawlservice.models.RowChange, if more than the field of ``newest``
    has changed."""

    __slots__ = ("history", "item", "newest", "on", "update")

    def __init__(
        self,
        item: Any = None,
        *,
        on: str | Iterable[str],
        newest: str | Callable[[Any, Any], bool] | None = None,
        update: str | Iterable[str] = (),
        history: bool = False,
    ) -> None:
        """Raises ValueError if ``on`` names no field."""
        self.item = item
        self.on = _names(on)
        self.newest = newest
        self.update = _names(update)
        self.history = history
        if not self.on:
            raise ValueError('Upsert: on names no field; name the unique ones, such as on="url"')

    @property
    def rule(self) -> tuple[Any, ...]:
        """Equal for items that are stored in the same way."""
        return self.on, self.newest, self.update, self.history


def _names(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else (*given,)
