"""Export: kept pages as a WARC or WACZ file, wherever their bodies are."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from django.db.models import Count, QuerySet

from crawlframe.warc import FORMATS, Capture, Original, wacz_of, warc_of
from crawlframe.warc.records import date_of
from crawlservice.models import KeptPage
from crawlservice.pages.archived import SOFTWARE, capture_of, check_segments
from crawlservice.pages.bodies import batches, read
from crawlservice.tasks.results.export import (
    STDOUT,
    ExportError,
    check_place,
    unwritable,
    write_file,
)

ROWS = 200  # pages whose rows are in memory at a time
NAMES = {suffix.split(".")[1]: suffix for suffix in FORMATS}  # warc, wacz


class PagesExport:
    """The pages of ``rows`` that exist now, oldest first. Equal bytes are in the file once; other
    pages that have them refer to the first. Samples, which are not as their sites sent them, are
    left out. ``given``: pages so far."""

    def __init__(
        self, rows: QuerySet[KeptPage], each: Callable[[int], object] = lambda _: None
    ) -> None:
        """``each`` is called with 1 for each page. Raises django.db.Error, and ArchiveError if
        segments cannot be read now."""
        self._each = each
        rows = rows.filter(sample=None)
        self._rows = rows.order_by("pk")
        last = rows.order_by("-pk").values_list("pk", flat=True).first()
        self._last = last or 0
        self.given = 0
        check_segments(rows)

    def stream(self, suffix: str, name: str) -> Iterator[bytes]:
        """The file in pieces. ``suffix``: one of FORMATS; ``name``: of the file, without it.
        Raises django.db.Error, ArchiveError and PageDamaged."""
        if suffix == ".wacz":
            return wacz_of(self._captures(), name, SOFTWARE)
        return warc_of(self._captures(), f"{name}{suffix}", SOFTWARE)

    def _captures(self) -> Iterator[Capture]:
        self.given = 0
        repeated = self._rows.order_by().values("body").annotate(n=Count("pk")).filter(n__gt=1)
        # Of each body that several pages have, the first one.
        first = dict.fromkeys(repeated.values_list("body", flat=True), 0)
        for some in batches(self._sized(), ROWS):
            bodies = read({row.body_id for row in some})
            numbers = {first[row.body_id] for row in some if first.get(row.body_id)}
            known = {row.pk: _original(row) for row in KeptPage.objects.filter(pk__in=numbers)}
            for row in some:
                if row.body_id not in bodies:  # a reader that is slow: it was deleted meanwhile
                    continue
                own, original = _original(row), None
                # Readers do not find the DOM of a browser through a record that refers to it.
                if row.body_id in first and not row.headers.get("rendered"):
                    original = known.get(first[row.body_id])
                    if original is None:
                        first[row.body_id], known[row.pk] = row.pk, own
                self.given += 1
                self._each(1)
                if original != own:  # otherwise it was taken from the store of pages
                    at = row.fetched_at.timestamp()
                    yield capture_of(row, bodies[row.body_id], at, original)

    def _sized(self) -> Iterator[tuple[KeptPage, int]]:
        """The pages, each with the bytes of its body."""
        after = 0
        rows = self._rows.filter(pk__lte=self._last).select_related("body").defer("body__data")
        while found := [*rows.filter(pk__gt=after)[:ROWS]]:
            after = found[-1].pk
            yield from ((row, row.body.size) for row in found)


def suffix_of(path: Path, chosen: str | None = None) -> str:
    """The suffix in FORMATS for a path. ``chosen``: one of NAMES; by default the path decides.
    Raises ExportError if the format cannot be written there."""
    suffix = NAMES[chosen] if chosen else next((s for s in FORMATS if path.name.endswith(s)), "")
    if not suffix:
        raise ExportError(
            f"{path}: the suffix decides the format; give {' or '.join(FORMATS)}, or --format"
        )
    if path != STDOUT:
        try:
            check_place(path)
        except (OSError, ValueError) as error:
            raise unwritable(path, error) from None
    return suffix


def write(
    export: PagesExport, path: Path, suffix: str, name: str, stdout: BinaryIO | None = None
) -> None:
    """Writes a file, which appears only when it is complete. Raises ExportError, BrokenPipeError,
    and the errors of ``stream``."""
    pieces = export.stream(suffix, name)
    try:
        if path == STDOUT:
            out = stdout or sys.stdout.buffer
            out.writelines(pieces)
            out.flush()
        else:
            write_file(path, pieces)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(path, error) from None


def _original(row: KeptPage) -> Original:
    return Original(row.url, date_of(row.fetched_at.timestamp()))
