"""Previews in the admin: what a version does to the data of kept pages, and the buttons by which an
operator decides whether it goes live."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy as _
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.pages import POST, may, to, verbs, whole_page
from crawlservice.admin.parts.read_only import OwnPage
from crawlservice.models import PreviewReport
from crawlservice.monitoring import nodes
from crawlservice.monitoring.nodes import Node
from crawlservice.preview.reports import report_on
from crawlservice.rollouts import decisions

DECIDES = "forget_generation"  # the right over the versions of nodes
DECISIONS = {
    "accept": (
        decisions.accept,
        _("Version {version} goes live with the next beat of the nodes that refused it"),
    ),
    "refuse": (decisions.refuse, _("Version {version} is refused; a newer one is tried anew")),
}


@admin.register(PreviewReport)
class PreviewReportAdmin(OwnPage):
    list_display = ("id", "version", "against", "node", "shown_pages", "shown_errors", "created")
    list_display_links = ("id", "version")
    search_fields = ("version",)

    shown_pages = column(lambda row: f"{row.pages:,}", _("pages"))
    shown_errors = column(lambda row: f"{row.errors:,}", _("errors by the rules"))

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        row = get_object_or_404(PreviewReport, pk=row_number(pk))
        known = nodes.by_generation() or {}
        asking = next((one for one in known.values() if asks(one, row.version)), None)
        context = decision_context(request, asking, row)
        return whole_page(request, "preview", row.version, opts=self.opts, **context)


def asks(node: Node, version: str) -> bool:
    """Whether an operator can decide about this version on a node."""
    return node.candidate == version and (node.asks or bool(node.refused_by))


def asking_of(known: Iterable[Node], pk: str | None) -> Node | None:
    """The node with this generation, if an operator can decide about its version."""
    return next(
        (one for one in known if str(one.generation) == pk and asks(one, one.candidate)), None
    )


def decision_context(
    request: HttpRequest, asking: Node | None, report: PreviewReport | None = None
) -> dict[str, Any]:
    """The values for _decision.html."""
    if report is None and asking is not None and may(request, "view_previewreport"):
        report = report_on(asking.candidate)
    return {"asking": asking, "preview": report, "may_decide": may(request, DECIDES)}


@verbs("generation", DECISIONS, DECIDES, POST)
def decide(request: HttpRequest, pk: int, verb: str) -> HttpResponse:
    """The buttons beside a version that a node asks about."""
    version = request.POST.get("version", "")
    do, done = DECISIONS[verb]
    try:
        do(version, request.user.get_username())
    except (CrawlframeError, RedisError) as error:
        messages.warning(request, str(error))
    else:
        record(f"{verb} version", **by(request), version=version)
        messages.success(request, done.format(version=version))
    return to("crawlservice_generation_change", pk)
