"""Export: the items of a task as JSON lines, CSV or Parquet, in the order they were stored."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from crawlframe.errors import CrawlframeError
from crawlframe.items.key_order import in_order
from crawlservice.models import Item, Task
from crawlservice.tasks.results.column_types import Kinds, add, as_kind
from crawlservice.tasks.results.item_filter import UsageFilter, of_items
from crawlservice.tasks.results.item_table import picked
from crawlservice.tasks.results.task_rows import of_task

STDOUT = Path("-")
CHUNK = 2000  # items in memory at a time
# A spreadsheet runs a cell that starts like this; a plain number is harmless. Full-width signs
# count like the others, and leading blanks are ignored.
FORMULA = re.compile(
    r"[\t\r\n\v\f\x85\u2028\u2029]|[\s\ufeff\u200b-\u200d\u2060]*[=+\-@|%＝＋－＠｜％﹦﹢﹣﹫﹪−]"
)
NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*([eE][+-]?\d+)?")
Chunks = Callable[[], Iterator[list[Any]]]


class ExportError(CrawlframeError):
    """The items cannot be written."""


class ParquetMissing(CrawlframeError):
    """Parquet needs pyarrow, which is not installed; run: pip install 'crawlframe[parquet]'"""


def check_target(path: Path, chosen: str | None = None) -> str:
    """The suffix in FORMATS of the file that ``export`` will write. ``path``: STDOUT or a file;
    ``chosen``: the name of the format; by default, the path's suffix decides.

    Raises ExportError when items cannot be written there, and ParquetMissing."""
    suffix = f".{chosen}" if chosen else ".jsonl" if path == STDOUT else path.suffix.lower()
    if suffix not in FORMATS:
        raise ExportError(
            f"{path}: the suffix decides the format, and {path.suffix or 'none'!r} is none of "
            f"{', '.join(FORMATS)}"
        )
    if suffix == ".parquet":
        check_installed()
    if path != STDOUT:
        try:
            check_place(path)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from None
    return suffix


def check_place(path: Path) -> None:
    """Raises ExportError, OSError and ValueError if no file can be written there."""
    if not path.parent.is_dir():
        raise ExportError(f"{path}: there is no directory {path.parent}; make it first")
    if path.is_dir():
        raise ExportError(f"{path} is a directory; name a file")
    if path.exists() and not path.is_file():
        raise ExportError(f"{path} is not a regular file; name one, or - for standard output")
    with suppress(FileNotFoundError):
        _draft_of(path).lstat()  # its name is longer, and may be too long
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ExportError(
            f"{path}: nothing can be written to the directory {path.parent} ({error.strerror}); "
            "name another one"
        ) from None


def export(
    task: Task,
    path: Path,
    chosen: str | None = None,
    *,
    stdout: BinaryIO | None = None,
    usage: Sequence[UsageFilter] = (),
    fields: Sequence[str] = (),
    read: Callable[[int], object] = lambda _: None,
) -> int:
    """Writes the items of a task, all or those whose pages ``usage`` means; returns how many.
    ``path`` and ``chosen``: see ``check_target``. ``fields``: only these, in this order. ``read``
    is called with the number of items that were read since the last call; CSV reads them twice.

    A file appears only when it is complete. Raises ExportError, and BrokenPipeError when the reader
    of
    the standard output has gone."""
    write = FORMATS[check_target(path, chosen)]
    items = Items(task, usage, fields, read)
    try:
        if path == STDOUT:
            out = stdout or sys.stdout.buffer
            out.writelines(write(items.chunks, None))
            out.flush()
        else:
            write_file(path, write(items.chunks, None))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(path, error) from None
    return items.given


def place_of(path: Path) -> str:
    """The name of a target for messages."""
    return "standard output" if path == STDOUT else str(path)


def write_file(path: Path, pieces: Iterable[bytes]) -> None:
    """The file appears only when it is complete. Raises OSError."""
    draft = _draft_of(path)
    try:
        with draft.open("wb") as file:
            file.writelines(pieces)
        draft.replace(path)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)


def _draft_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.part")


def unwritable(path: Path, error: Exception) -> ExportError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return ExportError(f"{place_of(path)} cannot be written: {reason}")


def stream(task: Task, suffix: str, usage: Sequence[UsageFilter] = ()) -> Iterator[bytes]:
    """The file, in pieces. ``suffix`` is one of FORMATS; ``usage`` as for ``export``. Raises
    ParquetMissing."""
    return stream_chunks(Items(task, usage).chunks, suffix)


def stream_chunks(chunks: Chunks, suffix: str, kinds: Kinds | None = None) -> Iterator[bytes]:
    """The same, of any rows. ``chunks`` is called twice and returns the same each time; ``kinds``:
    the columns, if they are known. Raises ParquetMissing."""
    if suffix == ".parquet":
        check_installed()
    return FORMATS[suffix](chunks, kinds)


class Items:
    """The items that a task has now. Items stored later do not appear, so that reading them twice
    gives the same. ``given``: how many there were the last time."""

    def __init__(
        self,
        task: Task,
        usage: Sequence[UsageFilter] = (),
        fields: Sequence[str] = (),
        read: Callable[[int], object] = lambda _: None,
    ) -> None:
        """``usage``: restricts the items by their pages; ``fields``: the fields of each; all if
        empty; ``read``: as for ``export``."""
        self._usage, self._fields, self._read = usage, fields, read
        self.given = 0
        self._task = task.pk
        newest = of_task(Item.objects.all(), task.pk, newest=True)
        self._last = newest.values_list("pk", flat=True).first() or 0

    def chunks(self) -> Iterator[list[Any]]:
        """All items in chunks, read again each time."""
        self.given = after = 0
        meant = of_items(Item.objects.filter(pk__lte=self._last), self._usage)
        until = meant.values_list("pk", "data", "key_order")
        while some := [*of_task(until, self._task, after=after)[:CHUNK]]:
            after = some[-1][0]
            self.given += len(some)
            self._read(len(some))
            yield [picked(in_order(data, order), self._fields) for _, data, order in some]


def lines(chunks: Chunks, kinds: Kinds | None = None) -> Iterator[bytes]:
    """Each row as JSON on a line; it needs no ``kinds``."""
    for some in chunks():
        yield "".join(json.dumps(data, ensure_ascii=False) + "\n" for data in some).encode()


def _csv(chunks: Chunks, kinds: Kinds | None = None) -> Iterator[bytes]:
    columns = list(kinds or dict.fromkeys(key for some in chunks() for row in some for key in row))
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([_harmless(column) for column in columns])
    for some in chunks():
        writer.writerows([_cell(data.get(column)) for column in columns] for data in some)
        yield text.getvalue().encode()
        text.seek(0)
        text.truncate()
    yield text.getvalue().encode()


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return value
    return _harmless(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _harmless(text: str) -> str:
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def check_installed() -> None:
    """Raises ParquetMissing if pyarrow, an optional dependency, is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ParquetMissing


def _parquet(chunks: Chunks, kinds: Kinds | None = None) -> Iterator[bytes]:
    """The file in pieces, one row group per chunk. ``chunks`` is called twice, first to learn the
    columns, unless ``kinds`` has them. A column whose values are all of one kind has it: text,
    whole numbers, numbers, true or false. Values of any other column are JSON as text. Raises
    ParquetMissing."""
    check_installed()
    import pyarrow as pa  # importing it is slow, and nothing else needs it
    import pyarrow.parquet as pq

    types = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64()}
    types |= {"boolean": pa.bool_(), "json": pa.string(), "": pa.string()}
    if kinds is None:
        kinds = {}
        for some in chunks():
            add(kinds, some)
    schema = pa.schema([pa.field(name, types[kind]) for name, kind in kinds.items()])
    sink = _Sink()
    with pq.ParquetWriter(sink, schema) as writer:
        for some in chunks():
            columns = [
                pa.array([as_kind(data.get(name), kind) for data in some], types[kind])
                for name, kind in kinds.items()
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file that keeps the written bytes until they are taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._size

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


FORMATS: dict[str, Callable[[Chunks, Kinds | None], Iterator[bytes]]] = {
    ".jsonl": lines,
    ".csv": _csv,
    ".parquet": _parquet,
}
