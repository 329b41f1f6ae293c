"""Upserts: model items whose rows may exist already, in the transaction of their pages."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections, router
from django.db.models import Field, Model, Q

from crawlframe.items.upsert import Upsert
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.model_items.refused_rows import RowRefused
from crawlservice.models import VERSION, RowChange

Values = tuple[Any, ...]
KEYS_PER_QUERY = 100  # rows that are looked up at a time; SQLite limits how deep a condition may be


class ModelRow(NamedTuple):
    """A model item and its page. ``given``: the primary key that it was yielded with.
    ``outcome``: of its page; None for an item that is delivered to another database."""

    instance: Any
    upsert: Upsert | None
    given: Any
    outcome: Outcome | None


class Upserts:
    """Upserts of one model by one rule."""

    def __init__(self, model: type[Model], upsert: Upsert) -> None:
        self._model = model
        self._manager = model._default_manager
        self._upsert = upsert
        self._vendor = connections[router.db_for_write(model)].vendor
        self._key = [_field(model, name) for name in upsert.on]
        names = upsert.update or [field.name for field in _updated(model, upsert.on)]
        self._fields = [_field(model, name) for name in names]
        # They say when a row was written, so they are no reason to write it.
        self._automatic = [field for field in self._fields if getattr(field, "auto_now", False)]

    def save(self, rows: list[ModelRow]) -> None:
        found: dict[Values, ModelRow] = {}
        doubles: list[tuple[Any, Values]] = []
        keyless: list[Any] = []
        for row in rows:
            key = self._key_of(row.instance)
            if None in key:  # no other row has the same one
                keyless.append(row.instance)
                continue
            if (before := found.get(key)) is not None:
                wins = self._wins(before.instance, row.instance)
                doubles.append((before.instance if wins else row.instance, key))
                if not wins:
                    continue
            found[key] = row
        ordered = [found[key] for key in sorted(found, key=repr)]
        if self._upsert.newest is None and not self._upsert.history and self._fields:
            self._manager.bulk_create(
                [row.instance for row in ordered],
                update_conflicts=True,
                unique_fields=[field.name for field in self._key],
                update_fields=[field.name for field in self._fields],
            )
        else:
            self._compare(ordered)
        self._manager.bulk_create(keyless)
        for instance, key in doubles:
            instance.pk = found[key].instance.pk

    def _key_of(self, instance: Any) -> Values:
        return tuple(field.get_prep_value(field.value_from_object(instance)) for field in self._key)

    def _wins(self, stored: Any, new: Any) -> bool:
        newest = self._upsert.newest
        if newest is None:
            return True
        if callable(newest):
            return bool(newest(stored, new))
        field = _field(self._model, newest)
        old, value = (field.to_python(field.value_from_object(one)) for one in (stored, new))
        return old is None or (value is not None and value >= old)

    def _compare(self, rows: list[ModelRow]) -> None:
        """Locks the rows that exist, compares them with the items, and updates changed rows."""
        stored = self._stored(rows)
        missing = [row for row in rows if self._key_of(row.instance) not in stored]
        if missing:
            # Another transaction may insert the same row meanwhile: then it is there, and compared.
            before = [row.instance for row in missing]
            self._manager.bulk_create(before, ignore_conflicts=True)
            stored |= self._stored(missing)
        changed, history, names = [], [], set[str]()
        for row in rows:
            key = self._key_of(row.instance)
            if key not in stored:
                raise RowRefused(self._taken(row.instance))
            old = stored[key]
            row.instance.pk = old.pk
            row.instance._state.adding = False
            differing = self._differing(old, row.instance)
            if not differing or not self._wins(old, row.instance):
                continue
            changes = {}
            differing += [
                (field, field.pre_save(row.instance, add=False)) for field in self._automatic
            ]
            for field, value in differing:
                changes[field.name] = [_json(field, old), None]
                setattr(old, field.attname, value)
                changes[field.name][1] = _json(field, old)
            changed.append(old)
            names.update(changes)
            for field in self._automatic:
                del changes[field.name]
            if self._upsert.history and changes.keys() - {self._upsert.newest}:
                history.append(_change(row, old, changes))
        if changed:
            self._manager.bulk_update(changed, sorted(names))
        RowChange.objects.bulk_create(history)

    def _taken(self, instance: Any) -> str:
        """Why a row is not inserted: another row has one of its unique values."""
        for field in self._model._meta.concrete_fields:
            value = field.value_from_object(instance)
            alike = {field.attname: value}
            if field.unique and value is not None and self._manager.filter(**alike).exists():
                label = f"{self._model._meta.label}.{field.name}"
                return f"{label}: another row has {str(value)[:100]!r}"
        return f"{self._model._meta.label}: another row has a unique value of this item"

    def _stored(self, rows: list[ModelRow]) -> dict[Values, Any]:
        """The rows with the keys of these items, locked in the order of their keys."""
        found: dict[Values, Any] = {}
        names = [field.attname for field in self._key]
        for first in range(0, len(rows), KEYS_PER_QUERY):
            keys = [self._key_of(row.instance) for row in rows[first : first + KEYS_PER_QUERY]]
            condition = Q()
            if len(names) == 1:
                condition = Q(**{f"{names[0]}__in": [key[0] for key in keys]})
            else:
                for key in keys:
                    condition |= Q(**dict(zip(names, key, strict=True)))
            query = self._manager.filter(condition)
            if self._vendor != "sqlite":
                query = query.select_for_update(of=("self",))
            found.update((self._key_of(one), one) for one in query.order_by(*names))
        return found

    def _differing(self, old: Any, new: Any) -> list[tuple[Any, Any]]:
        """The fields whose values differ, with the new values."""
        found = []
        for field in self._fields:
            if field in self._automatic:
                continue
            value = field.to_python(field.pre_save(new, add=False))
            if isinstance(value, Decimal):
                value = _rounded(value, field.decimal_places, self._vendor)
            if not hasattr(value, "resolve_expression") and value != field.value_from_object(old):
                found.append((field, value))
        return found


def _field(model: type[Model], name: str) -> Any:
    return model._meta.get_field(name)


def _updated(model: type[Model], on: Iterable[str]) -> list[Field[Any, Any]]:
    return [
        field
        for field in model._meta.concrete_fields
        if field.name not in on
        and not field.primary_key
        and not getattr(field, "auto_now_add", False)
        and not field.generated
    ]


def _rounded(value: Decimal, places: int, vendor: str) -> Decimal:
    """The number that the database stores."""
    rule = ROUND_HALF_UP if vendor == "postgresql" else ROUND_HALF_EVEN
    return value.quantize(Decimal(1).scaleb(-places), rounding=rule) if value.is_finite() else value


def _json(field: Any, instance: Any) -> Any:
    value = field.value_from_object(instance)
    return value if type(value) in (str, int, float, bool, type(None), list, dict) else str(value)


def _change(row: ModelRow, stored: Any, changes: dict[str, Any]) -> RowChange:
    outcome = row.outcome
    assert outcome is not None
    return RowChange(
        model=stored._meta.label_lower,
        row=str(stored.pk),
        task=outcome.task,
        page=UUID(bytes=outcome.rid),
        version=outcome.version[:VERSION],
        changes=changes,
    )
