"""Export: the items of a task as JSON lines or CSV."""

from __future__ import annotations

import csv
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlframe.errors import CrawlframeError
from crawlservice.models import Item, Task

FORMATS = (".jsonl", ".csv")
CHUNK = 2000  # items in memory at a time
# A spreadsheet runs a cell that starts like this; a plain number is harmless.
FORMULA = re.compile(r"[=+\-@\t\r\n|%]")
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*([eE][+-]?\d+)?")


class ExportError(CrawlframeError):
    """The items cannot be written."""


def check_target(path: Path) -> None:
    """Raises ExportError when items cannot be written to ``path``."""
    if path.suffix.lower() not in FORMATS:
        raise ExportError(
            f"{path}: the suffix says the format, and {path.suffix or 'none'!r} is none of "
            f"{' and '.join(FORMATS)}"
        )
    if not path.parent.is_dir():
        raise ExportError(f"{path}: there is no directory {path.parent}; make it first")
    if path.is_dir():
        raise ExportError(f"{path} is a directory; name a file")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ExportError(
            f"{path}: nothing can be written to the directory {path.parent} ({error.strerror}); "
            "name another one"
        ) from None


def export(task: Task, path: Path) -> int:
    """Writes all items of a task in the order they were stored; answers how many.

    The file appears when it is complete. Raises ExportError."""
    check_target(path)
    draft = path.with_name(f".{path.name}.part")
    try:
        write = _write_csv if path.suffix.lower() == ".csv" else _write_lines
        written = write(task, draft)
        draft.replace(path)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return written


def _items(task: Task) -> Iterator[Any]:
    items = Item.objects.filter(task=task).order_by("id").values_list("data", flat=True)
    return items.iterator(chunk_size=CHUNK)


def _write_lines(task: Task, path: Path) -> int:
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for data in _items(task):
            file.write(json.dumps(data, ensure_ascii=False) + "\n")
            written += 1
    return written


def _write_csv(task: Task, path: Path) -> int:
    columns = list(dict.fromkeys(key for data in _items(task) for key in data))
    written = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([_harmless(column) for column in columns])
        for data in _items(task):
            writer.writerow([_cell(data.get(column)) for column in columns])
            written += 1
    return written


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return _harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _harmless(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text
