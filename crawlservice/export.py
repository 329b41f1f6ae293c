"""Export: the items of a task as JSON lines or CSV."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Iterator
from itertools import islice
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
    written = 0
    try:
        with draft.open("wb") as file:
            for piece, items in _pieces(task, path.suffix):
                file.write(piece)
                written += items
        draft.replace(path)
    except OSError as error:
        raise ExportError(f"{path} cannot be written: {error}") from None
    finally:
        draft.unlink(missing_ok=True)
    return written


def stream(task: Task, suffix: str) -> Iterator[bytes]:
    """The same as ``export`` to a file of this suffix, piece by piece."""
    return (piece for piece, _ in _pieces(task, suffix))


def _pieces(task: Task, suffix: str) -> Iterator[tuple[bytes, int]]:
    """Pieces of the file, and how many items each holds."""
    return (_csv if suffix.lower() == ".csv" else _lines)(task)


def _items(task: Task) -> Iterator[Any]:
    items = Item.objects.filter(task=task).order_by("id").values_list("data", flat=True)
    return items.iterator(chunk_size=CHUNK)


def _lines(task: Task) -> Iterator[tuple[bytes, int]]:
    for some in _batched(_items(task)):
        text = "".join(json.dumps(data, ensure_ascii=False) + "\n" for data in some)
        yield text.encode(), len(some)


def _csv(task: Task) -> Iterator[tuple[bytes, int]]:
    columns = list(dict.fromkeys(key for data in _items(task) for key in data))
    yield _rows([[_harmless(column) for column in columns]]), 0
    for some in _batched(_items(task)):
        rows = [[_cell(data.get(column)) for column in columns] for data in some]
        yield _rows(rows), len(some)


def _rows(rows: list[list[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _batched(items: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(islice(items, CHUNK)):
        yield some


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return _harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _harmless(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text
