"""Replacement: items of kept pages that were parsed again replace the items of the requests that
brought the pages, in the transaction of the rows of the parse.

Locks the rows of the tasks, then the rows of the requests, each in their order, as a retry does: of
a retry and a replacement one is first, and the other finds its rows. A dry run does the same and
rolls it back, so that it finds the same differences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection as default_connection
from django.db import transaction
from django.db.models import F

from crawlframe.base.exact_json import loads
from crawlframe.items.encode import clean_text
from crawlframe.items.key_order import order_of
from crawlframe.items.models import label_of
from crawlframe.pages.copy import ITEM
from crawlframe.pages.reparse import Replacement, is_failed
from crawlframe.run.outcome import Outcome, Verdict
from crawlframe.run.participant import Participant
from crawlframe.run.reasons import NO_ERRORS
from crawlservice.ledger.model_items import model_rows
from crawlservice.ledger.model_items.outgoing_rows import other_database
from crawlservice.ledger.model_items.refused_rows import RowRefused
from crawlservice.models import MODEL, VERSION, Item, KeptPage, Page, ParsedPage, ReplacedItem, Task
from crawlservice.pages.difference import Difference, difference

COPIED = "task_id, rid, ordinal, data, version, model, created_at"
KEEP = (
    f"INSERT INTO {ReplacedItem._meta.db_table} ({COPIED}, replaced_by)"
    f" SELECT {COPIED}, %s FROM {Item._meta.db_table} WHERE rid IN ({{rids}})"
)
PAGE = ("rid", "task_id", "state", "reason", "items", "version")
REPAIRED = ("state", "reason", "detail", "error_group", "exchange", "request", "items", "version")


@dataclass
class Parsed:
    """A kept page that was parsed, and the row of the request that brought it."""

    outcome: Outcome
    source: Replacement
    page: Page
    difference: Difference
    models: set[str]  # of its items that were ever stored as rows

    @property
    def repaired(self) -> bool:
        return self.page.state == Page.State.ERROR and not self.source.still

    @property
    def replaces(self) -> bool:
        return bool(self.difference) or self.repaired

    @property
    def fits(self) -> bool:
        """Whether its page was kept for an error that it has no more."""
        return not self.outcome.results.unfit and not self.source.still

    def row(self) -> ParsedPage:
        found, outcome = self.difference, self.outcome
        return ParsedPage(
            rid=UUID(bytes=outcome.rid),
            task_id=outcome.task,
            source_task=self.source.task,
            source_rid=self.page.rid,
            url=clean_text(outcome.url),
            old_version=self.page.version,
            version=_version(outcome),
            before=self.page.items,
            after=len(self.source.items),
            added=found.added,
            removed=found.removed,
            changed=found.changed,
            fields=dict(found.fields),
            examples=found.examples,
            links=self.source.links,
            repaired=self.repaired,
        )


class Replacements(Participant):
    """Replaces the items of the pages that outcomes parsed, or finds the differences only, and
    records them. Raises RowRefused, and as ``model_rows.save`` does."""

    takes = ("results.source",)

    def concerned(self, outcomes: list[Outcome]) -> list[Outcome]:
        return [o for o in outcomes if o.verdict is Verdict.DONE]

    def write(self, outcomes: list[Outcome]) -> None:
        rows: list[ParsedPage] = []
        for dry_run in (False, True):
            for some in _apart([o for o in outcomes if _source(o).dry_run is dry_run]):
                rows += _replaced(some, dry_run)
        ParsedPage.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["rid"],
            update_fields=[f.name for f in ParsedPage._meta.concrete_fields if f.name not in KEPT],
        )


KEPT = ("id", "rid")


def _apart(outcomes: list[Outcome]) -> Iterable[list[Outcome]]:
    """Outcomes in groups with one for each request: two tasks may parse a page at once, and the
    second has to find the rows of the first."""
    while outcomes:
        first = {_source(o).rid: o for o in reversed(outcomes)}
        yield [*first.values()]
        outcomes = [o for o in outcomes if first[_source(o).rid] is not o]


def _source(outcome: Outcome) -> Replacement:
    assert outcome.results.source is not None  # else it does not concern this participant
    return outcome.results.source


def _replaced(outcomes: Sequence[Outcome], dry_run: bool) -> list[ParsedPage]:
    """Replaces the items of different requests. Returns the pages to be recorded."""
    found = _compared(outcomes)
    if not any(one.replaces for one in found):
        return [one.row() for one in found if one.source.links]
    with transaction.atomic():
        _lock(found)
        found = _compared(outcomes)  # another parse may have been first
        rows = [one.row() for one in found if one.replaces or one.source.links]
        _replace([one for one in found if one.replaces])
        if dry_run:
            _check_constraints(outcomes)
            transaction.set_rollback(True)
    return rows


def _check_constraints(outcomes: Iterable[Outcome]) -> None:
    """Checks the constraints that are deferred to the commit, which a dry run does not reach."""
    models: set[Any] = {
        type(one.instance) for o in outcomes for one in (o.results.models or {}).values()
    }
    tables = [model._meta.db_table for model in models if not other_database(model)]
    if tables:
        default_connection.check_constraints(sorted(tables))


def _compared(outcomes: Sequence[Outcome]) -> list[Parsed]:
    """Results without pages whose row is gone, as after a retry, has become an error that is none
    of the parser's, or is of a later run than the page."""
    rids = [UUID(bytes=_source(o).rid) for o in outcomes]
    pages = {page.rid: page for page in Page.objects.filter(rid__in=rids).only(*PAGE)}
    # The body of each of these pages that is still kept, and whether it is one of an error.
    rows = KeptPage.objects.filter(pk__in=[_source(o).page for o in outcomes])
    columns = rows.values_list("pk", "body", "reason")
    kept = {number: (body, is_failed(reason)) for number, body, reason in columns}
    items: dict[UUID, list[Any]] = defaultdict(list)
    models: dict[UUID, set[str]] = defaultdict(set)
    some = Item.objects.filter(rid__in=rids).order_by("rid", "ordinal")
    for rid, data, model in some.values_list("rid", "data", "model"):
        items[rid].append(data)
        if model:
            models[rid].add(model)
    for rid, model in _models_before(outcomes):
        models[rid].add(model)
    found = []
    for outcome in outcomes:
        source = _source(outcome)
        rid = UUID(bytes=source.rid)
        page = pages.get(rid)
        if page is None or page.task_id != source.task or page.reason in NO_ERRORS:
            continue
        if _is_outdated(source, page, kept.get(source.page)):
            continue
        if source.still and page.state == Page.State.DONE:
            continue  # it was right by other code
        new = [loads(item) for item in source.items]
        differing = difference(items[rid], new, source.key)
        found.append(Parsed(outcome, source, page, differing, models[rid]))
    return found


def _is_outdated(source: Replacement, page: Page, kept: tuple[int, bool] | None) -> bool:
    """Whether the request has run again since its page was kept. A retry that is done does not
    always keep a page; the kept page is then still the error's, and older than the items."""
    body, failed = kept or (source.body, source.failed)
    return body != source.body or (failed and page.state == Page.State.DONE)


def _models_before(outcomes: Iterable[Outcome]) -> Iterable[tuple[UUID, str]]:
    """Models with rows of replaced items of these pages: the rows are still there."""
    rids = [UUID(bytes=_source(o).rid) for o in outcomes if o.results.models]
    if not rids:
        return ()
    rows = ReplacedItem.objects.filter(rid__in=rids).exclude(model="").order_by()
    return rows.values_list("rid", "model").distinct()


def _lock(found: Sequence[Parsed]) -> None:
    if default_connection.vendor != "postgresql":  # SQLite has one writer at a time
        return
    tasks = Task.objects.filter(pk__in={one.source.task for one in found}).order_by("pk")
    [*tasks.select_for_update(no_key=True).values_list("pk", flat=True)]
    pages = Page.objects.filter(rid__in=[one.page.rid for one in found]).order_by("rid")
    [*pages.select_for_update(no_key=True).values_list("pk", flat=True)]


def _replace(found: Sequence[Parsed]) -> None:
    if not found:
        return
    for one in found:
        _refuse_doubles(one)
    by: dict[int, list[UUID]] = defaultdict(list)
    for one in found:
        by[one.outcome.task].append(one.page.rid)
    with default_connection.cursor() as cursor:
        for task, rids in sorted(by.items()):
            marks = ", ".join(["%s"] * len(rids))
            hexed = [rid.hex if default_connection.vendor == "sqlite" else rid for rid in rids]
            cursor.execute(KEEP.format(rids=marks), [task, *hexed])
    old = Item.objects.filter(rid__in=[one.page.rid for one in found])
    old._raw_delete(old.db)
    Item.objects.bulk_create([item for one in found for item in _items(one)])
    model_rows.save(one.outcome for one in found if one.outcome.results.models)
    _count(found)
    _set_right(found)


def _refuse_doubles(one: Parsed) -> None:
    """Raises RowRefused if a row that was inserted for an item would be inserted once more."""
    for item in (one.outcome.results.models or {}).values():
        label = label_of(item.instance)
        if item.upsert is None and label in one.models:
            raise RowRefused(
                f"{label}: its rows are inserted, so parsing the page again would double them; "
                "give the model an Upsert"
            )


def _items(one: Parsed) -> Iterable[Item]:
    models, version = one.outcome.results.models or {}, _version(one.outcome)
    for ordinal, data in enumerate(one.source.items):
        model = label_of(models[ordinal].instance)[:MODEL] if ordinal in models else ""
        yield Item(
            task_id=one.source.task,
            rid=one.page.rid,
            ordinal=ordinal,
            data=loads(data),
            version=version,
            model=model,
            key_order=order_of(loads(data)),
        )


def _count(found: Sequence[Parsed]) -> None:
    """Corrects the counters of tasks that have ended. Active tasks are counted when they end."""
    items: Counter[int] = Counter()
    repaired: Counter[int] = Counter()
    for one in found:
        items[one.source.task] += len(one.source.items) - one.page.items
        repaired[one.source.task] += one.repaired
    for task in sorted(items):
        Task.objects.filter(pk=task).exclude(state__in=Task.ACTIVE).update(
            items=F("items") + items[task],
            nf=F("nf") + repaired[task],
            ne=F("ne") - repaired[task],
        )


def _set_right(found: Sequence[Parsed]) -> None:
    """The rows of the requests, and why their pages are kept."""
    repaired = [one for one in found if one.repaired]
    for one in found:
        one.page.items, one.page.version = len(one.source.items), _version(one.outcome)
    for one in repaired:
        page = one.page
        page.state, page.reason, page.detail = Page.State.DONE, "", ""
        page.error_group = page.exchange = page.request = None
    others = [one.page for one in found if not one.repaired]
    Page.objects.bulk_update(others, ["items", "version"], batch_size=100)
    Page.objects.bulk_update([one.page for one in repaired], REPAIRED, batch_size=100)
    fit = [one.page.rid for one in found if one.fits]
    KeptPage.objects.filter(rid__in=fit).exclude(reason="").update(reason="")
    unfit = [one.page.rid for one in repaired if not one.fits]
    KeptPage.objects.filter(rid__in=unfit).update(reason=ITEM)
    # The items to take over for an unchanged page were made by the earlier code.
    signed = KeptPage.objects.filter(rid__in=[one.page.rid for one in found])
    signed.exclude(signature=None).update(signature=None, follow_ups=None)


def _version(outcome: Outcome) -> str:
    return clean_text(outcome.version)[:VERSION]
