"""OrderedPreview: a preview that a user has ordered, on its node. The report grows in its row."""

from __future__ import annotations

import time
from pathlib import Path

from django.db import DatabaseError
from django.utils import timezone

from crawlframe.code.checkout import DIGITS
from crawlframe.code.package import find_package
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlservice.models import PreviewReport
from crawlservice.preview.orders import given_of
from crawlservice.preview.preview import PreviewOrder
from crawlservice.preview.reports import columns_of
from crawlservice.preview.result import Preview

WRITE_EVERY = 1.0  # seconds between two writes
PROBLEM = 2_000  # characters


def run_order(number: int, project: Path, settings: Settings) -> None:
    """Runs the preview with this number, in the checkout of the spiders; of the ``project`` if they
    are in no package. Raises django.db.Error."""
    row = PreviewReport.objects.get(pk=number)
    package = find_package(settings.spiders)
    order = PreviewOrder(
        package.parent if package else project, settings, **given_of(row), watch=_Growing(row)
    )
    try:
        preview = order.run()
    except (CrawlframeError, DatabaseError) as error:
        _write(row, state=PreviewReport.State.FAILED, problem=str(error)[:PROBLEM])
    else:
        version = preview.commit[:DIGITS] or preview.after
        _write(row, preview, state=PreviewReport.State.DONE, version=version)


class _Growing:
    """Writes what is found so far, once a second."""

    def __init__(self, row: PreviewReport) -> None:
        self._row = row
        self._next = 0.0

    def __call__(self, preview: Preview) -> None:
        if time.monotonic() >= self._next:
            preview.judge()
            _write(self._row, preview)
            self._next = time.monotonic() + WRITE_EVERY


def _write(row: PreviewReport, preview: Preview | None = None, **fields: str) -> None:
    found = {} if preview is None else {"against": preview.before, **columns_of(preview)}
    rows = PreviewReport.objects.filter(pk=row.pk)
    rows.update(**found, **fields, changed_at=timezone.now())
