"""Model items: instances of Django models as items. Django itself is not imported: code without a
database knows models by their ``_meta``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, time
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from crawlframe.errors import SpiderError
from crawlframe.items.upsert import Upsert

PLAIN = (str, int, float, bool, type(None), list, dict)
# Further types that the encoder of items knows. Of other values, the text of their field is stored.
ENCODED = (str, int, float, list, tuple, dict, set, Decimal, UUID, date, time)


class ModelItem(NamedTuple):
    """An instance to be stored in the transaction of its page. ``upsert`` is None for rows that are
    only inserted. ``given``: its primary key when it was yielded."""

    instance: Any
    upsert: Upsert | None
    given: Any


def is_model(kind: Any) -> bool:
    """Whether a type is the class of a Django model."""
    return hasattr(getattr(kind, "_meta", None), "concrete_fields")


def label_of(instance: Any) -> str:
    """The label of a model, such as ``shop.House``."""
    return str(instance._meta.label)


def model_item(instance: Any, upsert: Upsert | None) -> ModelItem:
    """The item of an instance. ``upsert``: the Upsert around it; without it, its class may have
    one. Raises SpiderError for a model that cannot be an item, and for an instance that was one."""
    if getattr(instance._state, "is_item", False):
        raise SpiderError(
            f"{label_of(instance)} {str(instance)[:80]!r} was yielded twice; make another instance "
            "for each item"
        )
    instance._state.is_item = True
    if problem := _unfit(instance.__class__):
        raise SpiderError(problem)
    if upsert is None:
        declared = getattr(instance, "upsert", None)
        upsert = declared if isinstance(declared, Upsert) else None
    if upsert is not None and (problem := misuse_of(instance.__class__, upsert.rule)):
        raise SpiderError(problem)
    return ModelItem(instance, upsert, instance.pk)


@cache
def _unfit(model: Any) -> str:
    meta = model._meta
    if meta.abstract or not meta.managed or meta.proxy:
        kind = "abstract" if meta.abstract else "a proxy" if meta.proxy else "not managed"
        return f"{meta.label} is {kind}; items must be of a model with a table of its own"
    if any(parent for parent in meta.parents):
        return (
            f"{meta.label} inherits the table of another model, and such rows cannot be stored in "
            "bulk; link the models with a ForeignKey, or inherit from an abstract one"
        )
    return ""


@cache
def misuse_of(model: Any, rule: tuple[Any, ...]) -> str:
    """Why an Upsert with this rule does not fit the model; "" if it fits."""
    on, newest, update, _history = rule
    meta, label = model._meta, model._meta.label
    names = {field.name for field in meta.concrete_fields}
    named = [*on, *update, *([newest] if isinstance(newest, str) else [])]
    for name in named:
        if name not in names:
            return f"{label}: Upsert names {name!r}; its fields are {', '.join(sorted(names))}"
    if newest is not None and not isinstance(newest, str) and not callable(newest):
        return f"{label}: newest of Upsert must be a field or a function, not {newest!r}"
    if set(on) not in [set(one) for one in _unique(meta)]:
        return (
            f"{label}: Upsert on {', '.join(on)} needs fields that are unique together; set "
            "unique=True, or add a UniqueConstraint of these fields, and migrate"
        )
    return ""


def _unique(meta: Any) -> Iterator[tuple[str, ...]]:
    for field in meta.concrete_fields:
        if field.unique:
            yield (field.name,)
    yield from meta.unique_together
    for one in meta.constraints:
        plain = hasattr(one, "nulls_distinct") and not one.condition and not one.expressions
        if plain and not one.deferrable:
            yield one.fields


# -- values ---------------------------------------------------------------------------------------


class Column(NamedTuple):
    """A field: its name, and the attribute that holds its value."""

    name: str
    attribute: str
    primary: bool
    relation: bool


@cache
def columns_of(model: Any) -> tuple[Column, ...]:
    return tuple(
        Column(field.name, field.attname, field.primary_key, field.is_relation)
        for field in model._meta.concrete_fields
    )


def values_of(instance: Any) -> dict[str, Any]:
    """The values of an instance as they are stored in JSON, by attribute. Another instance that is
    not stored yet is given with its own values. Fields that the database computes are left out.
    U+0000 and lone surrogates, which databases refuse, are removed from the instance."""
    values = vars(instance)
    found: dict[str, Any] = {}
    for name, attribute, primary, relation in columns_of(instance.__class__):
        value = values.get(attribute)
        kind = type(value)
        if kind is str:
            if "\0" in value or not (value.isascii() or _is_text(value)):
                value = value.replace("\0", "").encode("utf-8", "replace").decode()
                setattr(instance, attribute, value)
        elif value is None:
            other = related(instance, name) if relation else None
            if other is not None:
                found[name] = values_of(other)
                continue
            if primary or attribute not in values:
                continue
        elif kind not in PLAIN:
            if hasattr(value, "resolve_expression"):
                continue
            if not isinstance(value, ENCODED):
                value = instance._meta.get_field(name).value_to_string(instance)
        found[attribute] = value
    return found


def related(instance: Any, name: str) -> Any:
    """The instance that a relation of this one was given; None if it was given none."""
    return instance._state.fields_cache.get(name)


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
