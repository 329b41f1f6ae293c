"""What the API returns of items as a table."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field


class ColumnOut(BaseModel):
    name: str
    types: list[str] = Field(
        description="text, integer, number, boolean, list or object; the most frequent first"
    )
    empty: int = Field(description="items looked at without a value, or with an empty one")
    distinct: int


class ColumnsOut(BaseModel):
    looked: int = Field(description="items looked at, the latest of the task")
    all: bool = Field(description="whether these are all items of the task")
    columns: list[ColumnOut]


class FieldOut(BaseModel):
    old: Any
    new: Any


class ChangeOut(BaseModel):
    kind: Literal["added", "gone", "changed"]
    key: Any
    fields: dict[str, FieldOut] = Field(description="those that differ")


class ComparisonOut(BaseModel):
    other: int = Field(description="the task compared with")
    key: str
    keys: list[str] = Field(description="fields that can be the key, the most likely first")
    added: int
    gone: int
    changed: int
    same: int
    repeated: int = Field(description="items with the key of an item before them; not compared")
    unkeyed: int = Field(description="items without a key; not compared")
    changes: list[ChangeOut] = Field(description="the first 1,000 of them")
