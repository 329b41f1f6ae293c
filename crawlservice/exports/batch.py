"""Batch: the rows that are sent together, kept in a file until they are sent."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from crawlframe.errors import CrawlframeError
from crawlservice.exports.source import CHUNK, ExportRow
from crawlservice.tasks.results.column_types import Kinds, add


class Limits(NamedTuple):
    """When a batch is complete: at so many rows, bytes as JSON lines, or when its oldest row has
    that age. ``columns``: how many the target can have; 0: it has none."""

    rows: int
    bytes: int
    age: timedelta = timedelta(0)
    columns: int = 0


class TooManyColumns(CrawlframeError):
    """The rows have more fields than the target can have columns."""


class ExportBatch:
    """``last`` is the number of its last row, ``kinds`` are the columns, those of earlier batches
    first; of a target without columns, none."""

    def __init__(self, kinds: Kinds, columns: int = 0) -> None:
        """``columns``: see Limits."""
        self.last = self.rows = self.bytes = 0
        self.oldest: datetime | None = None
        self.kinds = dict(kinds) if columns else {}
        self._columns = columns
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this

    def add(self, row: ExportRow) -> None:
        """Adds the next row. Raises TooManyColumns, and OSError if the disk is full."""
        if self._columns:
            add(self.kinds, [row.record])
            if len(self.kinds) > self._columns:
                raise TooManyColumns(
                    f"the rows up to {row.number} have more than {self._columns:,} fields, and the "
                    "target one column for each; choose fields of the export"
                )
        line = json.dumps(row.record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._file.write(line)
        self.last = row.number
        self.oldest = min(self.oldest or row.stored_at, row.stored_at)
        self.rows += 1
        self.bytes += len(line)

    def is_full(self, limits: Limits) -> bool:
        return self.rows >= limits.rows or self.bytes >= limits.bytes

    def is_due(self, limits: Limits, now: datetime) -> bool:
        """Whether it is to be sent. ``now`` is the database's."""
        old = self.oldest is not None and self.oldest + limits.age <= now
        return self.is_full(limits) or old

    def chunks(self) -> Iterator[list[dict[str, Any]]]:
        """The records, read again each time."""
        self._file.seek(0)
        some: list[dict[str, Any]] = []
        for line in self._file:
            some.append(json.loads(line))
            if len(some) == CHUNK:
                yield some
                some = []
        if some:
            yield some

    def close(self) -> None:
        self._file.close()
