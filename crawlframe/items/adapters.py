"""Adapters for itemadapter: instances of Django models and msgspec's Structs as items."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from itemadapter.adapter import AdapterInterface
from msgspec import Struct

from crawlframe.items.models import columns_of, is_model, label_of


class _AttributeAdapter(AdapterInterface):
    """An item whose fields are attributes."""

    def __getitem__(self, name: str) -> Any:
        self._check(name)
        return getattr(self.item, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._check(name)
        setattr(self.item, name, value)

    @abstractmethod
    def _check(self, name: str) -> None:
        """Raises KeyError if the item has no such field."""


class ModelAdapter(_AttributeAdapter):
    """An instance as a mapping of its fields to their values."""

    @classmethod
    def is_item_class(cls, item_class: type[Any]) -> bool:
        return is_model(item_class)

    @classmethod
    def get_field_names_from_class(cls, item_class: Any) -> list[str] | None:
        return [column.name for column in columns_of(item_class)]

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"a field of {label_of(self.item)} cannot be removed; set it to None")

    def __iter__(self) -> Iterator[str]:
        return (column.name for column in columns_of(self.item.__class__))

    def __len__(self) -> int:
        return len(columns_of(self.item.__class__))

    def _check(self, name: str) -> None:
        if all(name != column.name for column in columns_of(self.item.__class__)):
            raise KeyError(name)


class StructAdapter(_AttributeAdapter):
    """A Struct as a mapping of its fields to their values."""

    @classmethod
    def is_item_class(cls, item_class: type[Any]) -> bool:
        return issubclass(item_class, Struct)

    @classmethod
    def get_field_names_from_class(cls, item_class: type[Any]) -> list[str] | None:
        return list(item_class.__struct_fields__)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        delattr(self.item, name)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.item.__struct_fields__ if hasattr(self.item, name))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _check(self, name: str) -> None:
        if name not in self.item.__struct_fields__:
            raise KeyError(name)
