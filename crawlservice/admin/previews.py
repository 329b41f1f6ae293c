"""Previews in the admin: ordering one; the page of one, with the difference that a version makes to
the data of kept pages; and the buttons by which an operator decides whether it goes live."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from redis import RedisError

from crawlframe.errors import CrawlframeError, FieldError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.fields import choice, text, whole
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.pages import (
    POST,
    STOP,
    check,
    live,
    may,
    posted,
    to,
    to_row,
    verbs,
    whole_page,
)
from crawlservice.admin.parts.read_only import OwnPage
from crawlservice.display import badge
from crawlservice.models import PreviewReport
from crawlservice.monitoring import nodes
from crawlservice.monitoring.nodes import Node
from crawlservice.preview import orders
from crawlservice.preview.reports import report_on
from crawlservice.preview.result import LIVE
from crawlservice.rollouts import decisions

State = PreviewReport.State
RUNS = (State.WAITING, State.RUNNING)
TONES = {"waiting": "muted", "running": "primary", "done": "good", "failed": "bad"}
DECIDES = "forget_generation"  # the right over the versions of nodes
DECISIONS = {
    "accept": (
        decisions.accept,
        _("Version {version} goes live with the next beat of the nodes that refused it"),
    ),
    "refuse": (decisions.refuse, _("Version {version} is refused; a newer one is tried anew")),
}


class PreviewForm(forms.Form):
    """``nodes``: those that can run it. ``revisions``: some that they know."""

    revision = text(
        _("Revision"),
        _("A branch, tag or commit that the checkout of a node has, such as origin/new-prices."),
        {"autocomplete": "off", "spellcheck": "false", "list": "cf-revisions"},
        required=True,
        max_length=orders.TEXT,
    )
    against = text(
        _("Compared with"),
        _("Another revision; live: the commit that the nodes run."),
        {"autocomplete": "off", "spellcheck": "false", "list": "cf-revisions"},
        required=True,
        initial=LIVE,
        max_length=orders.TEXT,
    )
    spiders = text(
        _("Spiders"),
        _(
            "Names, separated by spaces; * stands for other characters. Empty: all whose code "
            "differs."
        ),
        max_length=orders.TEXT,
    )
    pages = whole(
        _("Pages"),
        _("of each spider, at most"),
        required=True,
        initial=orders.PAGES,
        min_value=1,
        max_value=orders.MOST_PAGES,
    )
    node = choice(_("Node"), help_text=_("Empty: any with a git checkout."))

    def __init__(self, nodes: list[str], *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.fields["node"].choices = [("", "-"), *((one, one) for one in nodes)]  # type: ignore[attr-defined]

    def clean_spiders(self) -> list[str]:
        return str(self.cleaned_data["spiders"]).replace(",", " ").split()


@admin.register(PreviewReport)
class PreviewReportAdmin(OwnPage):
    list_display = (
        "id", "version", "against", "shown_state", "node", "shown_pages", "shown_errors", "by_whom",
        "created",
    )  # fmt: skip
    list_display_links = ("id", "version")
    search_fields = ("version",)
    deferred = ("report",)

    shown_pages = column(lambda row: f"{row.pages:,}", _("pages"))
    shown_errors = column(lambda row: f"{row.errors:,}", _("errors by the rules"))
    by_whom = column(lambda row: row.user or "-", _("ordered by"))

    @admin.display(description=_("state"))
    def shown_state(self, row: PreviewReport) -> SafeString:
        orders.settle(row)
        return badge(row.get_state_display(), TONES[row.state])

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may(request, "add_previewreport")

    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Orders a preview."""
        check(request, "add_previewreport")
        able, known = [], []
        try:
            able, known = orders.nodes(), orders.revisions()
        except (CrawlframeError, RedisError) as error:
            messages.error(request, nodes.why_away(error))
        initial = {"revision": request.GET.get("revision", "")}
        form = PreviewForm(able, posted(request), initial=initial)
        if request.method == "POST" and form.is_valid():
            given = form.cleaned_data
            try:
                row = orders.order(**given, by=request.user.get_username())
            except (CrawlframeError, RedisError) as error:
                field = error.field if isinstance(error, FieldError) else None
                form.add_error(field if field in form.fields else None, str(error))
            else:
                record("preview", **by(request), preview=row.pk, **orders.given_of(row))
                return to_row(row)
        return whole_page(
            *(request, "preview_order", gettext("Order a preview")),
            heading=gettext("Order a preview"),
            note=gettext(
                "A node runs two revisions over kept pages. Nothing is fetched, and nothing is "
                "stored but the report."
            ),
            opts=self.opts,
            form=form,
            revisions=known,
            button=gettext("Order"),
            icon="play_arrow",
            back=reverse("admin:crawlservice_previewreport_changelist"),
            is_fullwidth="",
        )

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        context = _now(request, get_object_or_404(PreviewReport, pk=row_number(pk)))
        return whole_page(request, "preview", context["preview"].version, opts=self.opts, **context)


@live("crawlservice/previewreport/<int:pk>/now/", "preview_now", "view_previewreport")
def now(request: HttpRequest, pk: int) -> HttpResponse:
    context = _now(request, get_object_or_404(PreviewReport, pk=pk))
    status = 200 if context["runs"] else STOP
    return TemplateResponse(request, "admin/crawlservice/_preview_now.html", context, status=status)


def _now(request: HttpRequest, row: PreviewReport) -> dict[str, Any]:
    orders.settle(row)
    runs = row.state in RUNS
    known = {} if runs else nodes.by_generation() or {}
    asking = next((one for one in known.values() if asks(one, row.version)), None)
    return {"runs": runs, **decision_context(request, asking, row)}


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
