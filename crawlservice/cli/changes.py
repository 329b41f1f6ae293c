"""Changes: the differences that parsing kept pages again has made, as commands show them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from crawlservice.cli.terminal import plain
from crawlservice.models import ParsedPage, Task
from crawlservice.reparse.changes import changes
from crawlservice.reparse.submission import in_words, reparse_of

MAX_PAGES = 5  # pages
FIELDS = 30
VALUE = 80  # characters of a value


def facts_of(task: Task) -> list[tuple[str, str]]:
    """Lines for the table of a task; none for one that fetches."""
    reparse = reparse_of(task)
    if reparse is None:
        return []
    found = changes(task.pk, examples=0)
    would = "would be " if reparse.dry_run else ""
    facts = [("parses", in_words(reparse)), ("pages that differ", f"{found.pages:,}")]
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
