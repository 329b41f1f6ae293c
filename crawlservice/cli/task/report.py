"""Report: everything about one task at this moment, as `task` and the end of `crawl` show it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from django.db import connection
from rich.console import Group, RenderableType
from rich.table import Table

from crawlframe.base.program import command
from crawlservice.cli.listing import facts_table, plain, status
from crawlservice.display import duration
from crawlservice.hosts.host_labels import wait_of
from crawlservice.models import Item, ParsedPage, Task
from crawlservice.proxies.use import lacks_of, no_proxy
from crawlservice.quality import deviation
from crawlservice.quality.wording import sentence_of
from crawlservice.reparse.changes import changes
from crawlservice.reparse.submission import in_words as reparse_in_words
from crawlservice.reparse.submission import reparse_of
from crawlservice.tasks.arguments.spider_arguments import shortened
from crawlservice.tasks.labels import of_task
from crawlservice.tasks.overrides import as_pairs
from crawlservice.tasks.progress.budgets import stops, traps_of
from crawlservice.tasks.progress.forecast import forecast
from crawlservice.tasks.progress.layers import in_words, waits_for_hand
from crawlservice.tasks.progress.layers import of_task as layers_of
from crawlservice.tasks.progress.progress import Progress, read, yielded
from crawlservice.tasks.progress.stats import of_task as stats_of
from crawlservice.tasks.progress.summary import causes_of, pages_by_version, parked_of
from crawlservice.tasks.stored_limits import limits_as_written, obeys_robots

MAX_PAGES = 5  # pages
FIELDS = 30
VALUE = 80  # characters of a value
CAUSES = 10  # of errors


def report(task: Task, more: list[tuple[str, str]] | None = None) -> RenderableType:
    """Numbers, errors by reason with examples, parked requests, and where the data is. ``more``
    are further lines for the table."""
    progress = read([task])[0]
    facts = [*_facts(progress), *facts_of(task), *(more or ())]
    parts: list[RenderableType] = [facts_table(facts)]
    if errors := errors_table(task):
        parts.append(errors)
    return Group(*parts)


def _facts(progress: Progress) -> list[tuple[str, str]]:
    return [
        *_numbers(progress),
        *_conditions(progress.task),
        *_ending(progress),
        *_counted(progress),
    ]


def _numbers(progress: Progress) -> list[tuple[str, str]]:
    task = progress.task
    age = progress.age
    facts = [
        ("task", f"{task.pk}  {task.spider}  {shortened(task.arguments) or ''}".rstrip()),
        ("state", _state(progress)),
        ("items", f"{progress.items:,}"),
        ("requests", f"{progress.na:,}"),
        ("done", f"{progress.nf:,}"),
        ("errors", f"{progress.errors:,}"),
        ("left", f"{progress.nr:,}"),
        ("duration", duration(age)),
    ]
    if progress.ended:
        return [*facts, ("rate", f"{progress.worked / age:,.0f} pages/s" if age else "-")]
    return facts + _ahead(progress)


def _ahead(progress: Progress) -> list[tuple[str, str]]:
    """The progress of a task that has not ended, and the reasons why it waits."""
    task = progress.task
    known = forecast(progress)
    waiting = {"ready": progress.ready, "in flight": progress.in_progress}
    waiting |= {"delayed": progress.delayed, "parked": progress.parked}
    facts = [
        ("progress", ": ".join(filter(None, (known.share, known.words)))),
        ("waiting", "  ".join(f"{k} {n:,}" for k, n in waiting.items())),
    ]
    if progress.wait is not None:
        facts.append(("held up", wait_of(progress.wait)))
    if (so_far := yielded([task.pk]).get(task.pk)) is not None:
        facts.append(("start", f"runs; {so_far:,} requests so far"))
    facts += [("parked", f"{n:,}: {reason}") for reason, n in parked_of(task)[:5]]
    return facts + [("no proxy", no_proxy(one)) for one in lacks_of(task.pk)]


def _conditions(task: Task) -> list[tuple[str, str]]:
    """The limits, labels and settings that the task was given."""
    facts = []
    if limits := limits_as_written(task):
        facts.append(("limits", "  ".join(f"{name} {value}" for name, value in limits.items())))
    if labels := of_task(task.pk):
        facts.append(("labels", "  ".join(f"{name}={value}" for name, value in labels.items())))
    if task.overrides:
        facts.append(("settings", "  ".join(as_pairs(task.overrides))))
    if not obeys_robots(task):
        facts.append(("robots.txt", "ignored"))
    return facts


def _ending(progress: Progress) -> list[tuple[str, str]]:
    """Requests that were cancelled or excluded, and the end of the task or its next step."""
    task = progress.task
    facts = []
    if progress.cancelled:
        facts.append(("cancelled", f"{progress.cancelled:,}"))
    if progress.excluded:
        facts.append(("excluded", f"{progress.excluded:,}"))
    if task.unwritten is not None:
        rows = f"{progress.written:,} of {task.na:,} written, the others follow in the background"
        facts.append(("ledger rows", rows))
    if task.closing and not progress.ended:
        facts.append(("closed because", task.closing))
    facts += [("quality", sentence_of(one)) for one in deviation.of_task(task.pk)]
    facts += [(f"layer {layer.number}", in_words(layer)) for layer in layers_of(progress)]
    if waits_for_hand(task):
        facts.append(("next", f"to continue: {command(f'task resume {task.pk}')}"))
    return facts


def _counted(progress: Progress) -> list[tuple[str, str]]:
    task = progress.task
    facts = []
    counted = stats_of(task.pk)
    for stop in stops(progress, counted):
        facts.append(("stopped by", f"{stop.reason}: {stop.links:,} links were not followed"))
    for trap in traps_of([task.pk]).get(task.pk, ()):
        found = f"{trap.pages:,} pages, {trap.contents:,} different contents"
        if task.settings.get("traps") != "stop":
            found += '; nothing was stopped (traps = "stop" would)'
        facts.append(("possible trap", f"{trap.template}: {found}"))
    facts += [("counted", f"{n:,}  {name}") for name, n in counted.counters.items()]
    facts += [("largest", f"{n:,}  {name}") for name, n in counted.maxima.items()]
    if by_version := pages_by_version(task):
        facts.append(("pages by code", by_version))
    facts.append(("data", f"{database_place()}, table {Item._meta.db_table}, task_id {task.pk}"))
    return facts


def _state(progress: Progress) -> str:
    task = progress.task
    word = status(task).plain
    if task.reason:
        return f"{word}: {task.reason}"
    return word if progress.live or progress.ended else f"{word}, not in Redis"


def errors_table(task: Task) -> Table | None:
    """The latest errors by cause, the most frequent first; None when there is none."""
    table = Table("errors", "n", "for instance", box=None, pad_edge=False, header_style="bold")
    table.columns[2].overflow = "fold"
    for cause in causes_of(task)[:CAUSES]:
        place = f"({cause.text.place})" if cause.text.place else ""
        text = "  ".join(filter(None, (cause.example.url, cause.text.message, place)))
        table.add_row(cause.reason, f"{cause.errors:,}", plain(text))
    return table if table.row_count else None


def database_place() -> str:
    """The database in a form that may be shown: a path, or a URL without user and password."""
    config = connection.settings_dict
    if connection.vendor == "sqlite":
        return str(config["NAME"])
    host = config.get("HOST") or config.get("OPTIONS", {}).get("host") or "localhost"
    port = f":{config['PORT']}" if config.get("PORT") else ""
    return f"postgresql://{host}{port}/{config['NAME']}"


def facts_of(task: Task) -> list[tuple[str, str]]:
    """Lines for the table of a task; none for one that fetches."""
    reparse = reparse_of(task)
    if reparse is None:
        return []
    found = changes(task.pk, examples=0)
    would = "would be " if reparse.dry_run else ""
    facts = [("parses", reparse_in_words(reparse)), ("pages that differ", f"{found.pages:,}")]
    if found.repaired:
        facts.append(("repaired", f"{found.repaired:,} pages in error {would}done"))
    items = f"{would}added {found.added:,}  removed {found.removed:,}  changed {found.changed:,}"
    facts.append(("items", items))
    if found.fields:
        named = "  ".join(f"{name} {n:,}" for name, n in found.fields[:FIELDS])
        facts.append(("fields", named))
    if found.links:
        fate = "followed" if reparse.follow else "not followed"
        facts.append(("new links", f"{found.links:,}, {fate}"))
    return facts


def examples_of(task: Task) -> Iterator[str]:
    """Some of the pages that differ, as text."""
    for row in changes(task.pk, most=1, examples=MAX_PAGES).examples:
        yield from _lines(row)


def _lines(row: ParsedPage) -> Iterator[str]:
    repaired = ", it was an error" if row.repaired else ""
    yield plain(f"{row.url}: {row.before} items before, {row.after} after{repaired}")
    for example in row.examples:
        yield plain(f"  {example['kind']} {_value(example['key'])}")
        for name, (before, after) in example["fields"].items():
            old = f"{_value(before)} -> " if example["kind"] != "added" else ""
            new = _value(after) if example["kind"] != "removed" else ""
            yield plain(f"    {name}: {old}{new}".rstrip(" ->"))


def _value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE else f"{text[: VALUE - 1]}…"
