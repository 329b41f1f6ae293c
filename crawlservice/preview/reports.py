"""Reports of previews, as they are kept in the database."""

from __future__ import annotations

from typing import Any

from crawlservice.models import PreviewReport
from crawlservice.preview.result import Preview, bounded

KEPT_REPORTS = 100


def keep(preview: Preview, node: str) -> PreviewReport:
    """Keeps the report of a version that a node has tried, in the place of an older one about the
    same two versions. Raises django.db.Error."""
    versions = {"version": preview.after, "against": preview.before}
    PreviewReport.objects.filter(**versions, given__isnull=True).delete()
    row = PreviewReport.objects.create(**versions, node=node, **columns_of(preview))
    prune()
    return row


def columns_of(preview: Preview) -> dict[str, Any]:
    """The values of a row that the result gives."""
    errors = len(preview.regressions)
    return {"pages": preview.pages, "errors": errors, "report": bounded(preview)}


def prune() -> None:
    """Deletes all reports but the newest. Raises django.db.Error."""
    newest = PreviewReport.objects.order_by("-pk").values_list("pk", flat=True)[:KEPT_REPORTS]
    PreviewReport.objects.filter(pk__lt=min(newest, default=0)).delete()


def report_on(version: str) -> PreviewReport | None:
    """The newest report about a version. Raises django.db.Error."""
    rows = PreviewReport.objects.filter(version=version, state=PreviewReport.State.DONE)
    return rows.order_by("-pk").first()
