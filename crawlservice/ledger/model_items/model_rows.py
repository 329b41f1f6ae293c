"""Model rows: saves the items that are model instances, in the transaction of their pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from typing import Any, cast

from django.apps import apps

from crawlframe.items.models import ModelItem, misuse_of, related
from crawlframe.items.upsert import Upsert
from crawlframe.run.outcome import Outcome
from crawlframe.run.participant import Participant
from crawlservice.ledger.model_items import refused_rows
from crawlservice.ledger.model_items.outgoing_rows import other_database, pack_all
from crawlservice.ledger.model_items.refused_rows import RowRefused
from crawlservice.ledger.model_items.upserts import ModelRow, Upserts
from crawlservice.models import RowDelivery

Rule = tuple[Any, ...]


class ModelRows(Participant):
    """Saves the model items of pages, except pages that were parsed again: these have
    replacements."""

    takes = ("results.models",)

    def write(self, outcomes: list[Outcome]) -> None:
        save(outcome for outcome in outcomes if outcome.results.source is None)

    def explain(self, outcomes: list[Outcome]) -> None:
        """Raises TablesChanged if a table has other columns than its model needs."""
        models = {one.instance.__class__ for o in outcomes for one in _items(o)}
        refused_rows.check_tables(model for model in models if not other_database(model))


def save(outcomes: Iterable[Outcome]) -> None:
    """Saves the model items of these pages, in their order. Items whose model is in another
    database are stored to be delivered. Call it in a transaction.

    Raises RowRefused for rows that the database refuses, TablesChanged if a table does not have
    the columns of its model, and django.db.Error."""
    rows = [ModelRow(*item, outcome) for outcome in outcomes for item in _items(outcome)]
    elsewhere = [row for row in rows if other_database(row.instance.__class__)]
    if elsewhere:
        rows = [row for row in rows if not other_database(row.instance.__class__)]
        RowDelivery.objects.bulk_create(pack_all(elsewhere))
    save_rows(rows)


def save_rows(rows: list[ModelRow]) -> None:
    """Saves rows of one database, in a transaction of that database. Raises as ``save`` does."""
    for row in rows:
        row.instance.pk = row.given  # an earlier attempt, which was rolled back, has set it
        row.instance._state.adding = True
    waiting = {id(row.instance): row for row in rows}
    while waiting:
        ready = [row for row in waiting.values() if not _parents(row.instance, waiting)]
        if not ready:
            row = next(iter(waiting.values()))
            label = row.instance._meta.label
            raise RowRefused(f"{label}: the items of this page refer to each other in a circle")
        # In the same order in all processes, so that they seldom wait for each other in a circle.
        for (_, rule), alike in sorted(_grouped(ready).items(), key=lambda group: group[0][0]):
            _save_alike(rule, alike)
        for row in ready:
            del waiting[id(row.instance)]


def _items(outcome: Outcome) -> Iterable[ModelItem]:
    return outcome.results.models.values() if outcome.results.models else ()


def _grouped(rows: list[ModelRow]) -> dict[tuple[str, Rule | None], list[ModelRow]]:
    groups: dict[tuple[str, Rule | None], list[ModelRow]] = defaultdict(list)
    for row in rows:
        rule = row.upsert.rule if row.upsert else None
        groups[row.instance._meta.label, rule].append(row)
    return groups


def _parents(instance: Any, waiting: dict[int, ModelRow]) -> bool:
    """Whether it refers to an instance that is saved later. Raises RowRefused if it refers to one
    that is not saved at all."""
    for field in _relations(instance.__class__):
        other = related(instance, field.name)
        if other is None:
            continue
        if id(other) in waiting:
            return True
        if other.pk is None:
            raise RowRefused(
                f"{instance._meta.label}.{field.name}: the {other._meta.label} that it refers to "
                "is not stored; yield that item, too"
            )
    return False


@cache
def _relations(model: Any) -> tuple[Any, ...]:
    return tuple(field for field in model._meta.concrete_fields if field.is_relation)


def _save_alike(rule: Rule | None, rows: list[ModelRow]) -> None:
    model = rows[0].instance.__class__
    for row in rows:
        for field in _relations(model):
            if (other := related(row.instance, field.name)) is not None:
                setattr(row.instance, field.name, other)  # takes over its primary key
    try:
        if rule is None:
            model._default_manager.bulk_create([row.instance for row in rows])
        else:
            Upserts(model, cast(Upsert, rows[0].upsert)).save(rows)
    except Exception as error:  # fields and functions of the author's may raise anything
        found = refused_rows.named(error, [row.instance for row in rows])
        if found is error:
            raise
        raise found from error


def misuse() -> str:
    """The fault of the Upserts that models declare; "" if there is none."""
    for model in apps.get_models():
        declared = getattr(model, "upsert", None)
        if isinstance(declared, Upsert) and (problem := misuse_of(model, declared.rule)):
            return problem
    return ""
