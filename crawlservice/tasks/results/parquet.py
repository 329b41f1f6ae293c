"""Parquet: items as columns with types."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Iterator
from typing import Any

from crawlframe.errors import CrawlframeError
from crawlservice.tasks.results.column_types import Kinds, add, as_kind


class ParquetMissing(CrawlframeError):
    """Parquet needs pyarrow, which is not installed; run: pip install 'crawlframe[parquet]'"""


def check_installed() -> None:
    """Raises ParquetMissing if pyarrow, an optional dependency, is not installed."""
    if importlib.util.find_spec("pyarrow") is None:
        raise ParquetMissing


def parquet(
    chunks: Callable[[], Iterator[list[Any]]], kinds: Kinds | None = None
) -> Iterator[bytes]:
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
