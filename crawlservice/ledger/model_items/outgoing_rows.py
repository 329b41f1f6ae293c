"""Outgoing rows: model items whose tables are in another database. They are stored as data in the
transaction of their page, and delivered afterwards, at least once (databases/delivery.py). Their
key makes that harmless: each is an Upsert."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import connection, connections, router
from django.db.models import CharField, DecimalField, IntegerField, JSONField, Model
from django.db.models.expressions import DatabaseDefault

from crawlframe.items.models import misuse_of, related
from crawlframe.items.upsert import Upsert
from crawlservice.ledger.model_items.refused_rows import RowRefused, reason_of
from crawlservice.ledger.model_items.upserts import ModelRow
from crawlservice.models import VERSION, RowDelivery


@cache
def other_database(model: type[Model]) -> str:
    """The alias of the database that has its table; "" if that is the database of the crawls.
    Raises RowRefused for a model that refers to one in another database."""
    alias = router.db_for_write(model)
    for field in model._meta.concrete_fields:
        other = field.related_model
        if other is not None and router.db_for_write(other) != alias:
            raise RowRefused(
                f"{model._meta.label}.{field.name} refers to a model in another database; keep the "
                "key of that row in a field of its own"
            )
    return "" if alias == connection.alias else alias


def pack_all(rows: Iterable[ModelRow]) -> list[RowDelivery]:
    """Deliveries of rows, one for each page and database. Raises RowRefused for items that cannot
    be delivered."""
    groups: dict[tuple[bytes, str], list[ModelRow]] = defaultdict(list)
    for row in rows:
        assert row.outcome is not None
        groups[row.outcome.rid, other_database(row.instance.__class__)].append(row)
    return [_delivery(database, group) for (_, database), group in groups.items()]


def _delivery(database: str, rows: list[ModelRow]) -> RowDelivery:
    outcome = rows[0].outcome
    assert outcome is not None
    places = {id(row.instance): place for place, row in enumerate(rows)}
    return RowDelivery(
        database=database,
        rows=[_packed(row, places) for row in rows],
        size=sum(map(len, outcome.results.items)),
        task=outcome.task,
        page=UUID(bytes=outcome.rid),
        version=outcome.version[:VERSION],
    )


def _packed(row: ModelRow, places: dict[int, int]) -> dict[str, Any]:
    instance, upsert = row.instance, row.upsert
    label = instance._meta.label
    if upsert is None:
        raise RowRefused(
            f"{label}: its table is in another database, where a row may arrive twice; yield "
            'Upsert(..., on="a unique field"), or set upsert in the model'
        )
    if upsert.history or callable(upsert.newest):
        what = "history" if upsert.history else "a function as newest"
        raise RowRefused(f"{label}: Upsert with {what} is not possible in another database")
    values: dict[str, Any] = {}
    links: dict[str, int] = {}
    for field in instance._meta.concrete_fields:
        other = related(instance, field.name) if field.is_relation else None
        if other is not None and id(other) in places:
            links[field.name] = places[id(other)]
        elif other is not None and other.pk is None:
            raise RowRefused(
                f"{label}.{field.name}: the {other._meta.label} that it refers to is not stored; "
                "yield that item, too"
            )
        elif not field.generated:
            if other is not None:
                setattr(instance, field.name, other)  # takes over its primary key
            _add(values, field, instance, upsert.on)
    rule = {"on": upsert.on, "newest": upsert.newest, "update": upsert.update}
    return {"model": label, **rule, "values": values, "links": links}


def _add(values: dict[str, Any], field: Any, instance: Any, on: Iterable[str]) -> None:
    """Adds the value of this field, as it is in JSON, unless the database has to find it."""
    value = field.value_from_object(instance)
    name = f"{instance._meta.label}.{field.name}"
    if isinstance(value, DatabaseDefault) or (value is None and field.primary_key):
        return
    if hasattr(value, "resolve_expression"):
        raise RowRefused(f"{name}: an expression is not possible in another database")
    try:
        value = field.to_python(value)
        setattr(instance, field.attname, value)
        values[field.name] = _json(field, value, instance)
    except Exception as error:  # a field of the author's may raise anything
        raise RowRefused(f"{name}: {reason_of(error)}") from None
    # Values that the table would refuse are refused here, where they end the page.
    made_there = getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)
    if value is None and not field.null and not made_there:
        raise RowRefused(f"{name}: it has no value")
    if value is None and field.name in on:
        raise RowRefused(f"{name}: it is part of the key, and has no value")
    if problem := _beyond(field, value):
        raise RowRefused(f"{name}: {problem}")
    if isinstance(field, CharField) and field.max_length and len(value or "") > field.max_length:
        raise RowRefused(
            f"{name}: it has {len(value)} characters, and at most {field.max_length} are possible"
        )


def _beyond(field: Any, value: Any) -> str:
    """Why a number is too large for its column; "" if it is not."""
    if value is None:
        return ""
    low = high = None
    if isinstance(field, DecimalField):
        high = 10 ** (field.max_digits - field.decimal_places)
        low = -high
    elif isinstance(field, IntegerField):
        there = connections[router.db_for_write(field.model)]
        low, high = there.ops.integer_field_range(field.get_internal_type())
    if (low is None or low <= value) and (high is None or value <= high):
        return ""
    return f"{value} is beyond the range of its column, {low} to {high}"


def _json(field: Any, value: Any, instance: Any) -> Any:
    if isinstance(field, JSONField):
        return json.loads(json.dumps(value, cls=field.encoder))
    finite = isinstance(value, float) and math.isfinite(value)
    if finite or isinstance(value, str | int | None):
        return value
    return field.value_to_string(instance)


def unpack(delivery: RowDelivery) -> list[ModelRow]:
    """The rows of a page as they were yielded. A value of a field that the model has no more is
    left out. Raises RowRefused."""
    rows = [_unpacked(packed) for packed in delivery.rows]
    for row, packed in zip(rows, delivery.rows, strict=True):
        for name, place in packed["links"].items():
            if name in _fields(row.instance.__class__):
                try:
                    setattr(row.instance, name, rows[place].instance)
                except ValueError as error:  # it refers to another model now
                    raise RowRefused(reason_of(error)) from None
    return rows


def _unpacked(packed: dict[str, Any]) -> ModelRow:
    label = packed["model"]
    try:
        model = apps.get_registered_model(*label.split("."))
    except LookupError:
        raise RowRefused(f"{label}: there is no such model any more") from None
    fields = _fields(model)
    given = {}
    for name, value in packed["values"].items():
        if name in fields:
            try:
                given[fields[name].attname] = fields[name].to_python(value)
            except Exception as error:  # its type has changed since; a field may raise anything
                raise RowRefused(f"{label}.{name}: {reason_of(error)}") from None
    upsert = Upsert(on=packed["on"], newest=packed["newest"], update=packed["update"])
    if problem := misuse_of(model, (*upsert.rule,)):
        raise RowRefused(problem)
    instance = model(**given)
    return ModelRow(instance, upsert, instance.pk, None)


@cache
def _fields(model: type[Model]) -> dict[str, Any]:
    return {field.name: field for field in model._meta.concrete_fields}
