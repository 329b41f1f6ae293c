"""Kept pages in the admin: copies of answers of sites. The right to see the list does not include
their contents, which may hold data of persons. The page of one has its source, a frame without
network, its headers and pictures, and the items that its callback would yield today."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError, PageDamaged, StoreError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.filters import RecentSpider, RecentTask, filter_by
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.pages import POST, check, may, page, place_of, to_row, whole_page
from crawlservice.admin.parts.read_only import UrlRows
from crawlservice.display import moment
from crawlservice.files import download
from crawlservice.models import KeptPage, Page, PageFile
from crawlservice.pages import page_trial, page_viewer
from crawlservice.pages.page_viewer import ShownPage

BODY = "view_pagebody"  # the right to see contents
KEPT, NAME = "crawlservice/keptpage/<int:pk>", "crawlservice_keptpage"  # of the addresses
ORDER = re.compile(r"[0-9a-f]{32}")  # the id of a trial
DOCUMENT, FRAME = "document", "iframe"  # Sec-Fetch-Dest of a page that is opened by itself, or not
RECENT_PAGES = 2_000  # pages whose values are offered by filters
MAX_VALUES = 50  # values offered


def _recent(title: Any, column: str) -> type[admin.SimpleListFilter]:
    """The values of a column in the latest pages; any other one is taken, too."""

    def offered() -> list[tuple[str, str]]:
        rows = KeptPage.objects.order_by("-pk").values_list(column, flat=True)[:RECENT_PAGES]
        return [(value, value) for value in sorted({*map(str, rows)} - {""})[:MAX_VALUES]]

    def having(rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        if column == "status" and not (value.isdecimal() and len(value) < 5):
            return rows.none()
        return rows.filter(**{column: value})

    return filter_by(title, column, offered, having, takes_any=True)


RecentHost = _recent(_("host"), "host")
RecentKeptReason = _recent(_("reason"), "reason")
RecentStatus = _recent(_("HTTP status"), "status")


@admin.register(KeptPage)
class KeptPageAdmin(UrlRows):
    list_display = ("id", "task_number", "why", "status", "short_url", "size", "fetched")
    list_filter = (RecentKeptReason, RecentStatus, RecentHost, RecentSpider, RecentTask)
    slow_filters = ("reason", "status", "host")
    list_select_related = ("body",)
    deferred = ("headers", "record", "follow_ups", "body__data")

    why = column(lambda page: _("sample") if page.sample else page.reason, _("reason"))
    size = column(lambda page: f"{page.body.size:,}", _("size"))
    fetched = column(moment, _("fetched"), "fetched_at")

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        row, content, problem = _row(pk), None, ""
        sees = may(request, BODY)
        if sees:
            try:
                content = ShownPage.of(row)
                _record(request, "view_page", row)
            except (PageDamaged, StoreError) as error:
                problem = str(error)
        files = PageFile.objects.select_related("file")
        order = request.GET.get("order", "")
        return whole_page(
            *(request, "keptpage", _("Kept page")),
            opts=self.opts,
            kept=row,
            task=row.task,
            content=content,
            problem=problem,
            may_see=sees,
            request_page=Page.objects.filter(rid=row.rid).only("pk", "callback").first(),
            pictures=files.filter(rid=row.rid, kind__in=download.SHOWN) if sees else (),
            order=order if ORDER.fullmatch(order) else "",
        )


@page(f"{KEPT}/frame/", f"{NAME}_frame", BODY)
def frame(request: HttpRequest, pk: int) -> HttpResponse:
    """The page for the frame: it is never shown by itself."""
    row = _seen(request, pk)
    if request.headers.get("Sec-Fetch-Dest") == DOCUMENT:
        return to_row(row)
    content = _content(row)
    if request.headers.get("Sec-Fetch-Dest") != FRAME:  # not as a part of the page
        _record(request, "view_page", row)
    return page_viewer.rendered(content)


@page(f"{KEPT}/body/", f"{NAME}_body", BODY)
def body(request: HttpRequest, pk: int) -> HttpResponse:
    """The body as an attachment."""
    row = _seen(request, pk)
    content = _content(row)
    _record(request, "download_page", row)
    return page_viewer.attachment(content)


@page(f"{KEPT}/today/", f"{NAME}_today", BODY, POST)
def ask(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks a node for the items that the callback would yield today."""
    row = _seen(request, pk)
    try:
        order = page_trial.ask(row)
    except CrawlframeError as error:
        messages.error(request, str(error))
        return to_row(row)
    _record(request, "try_page", row)
    return HttpResponseRedirect(f"{place_of(row)}?order={order}#cf-today")


@page(f"{KEPT}/today/<slug:order>/", f"{NAME}_answer", BODY)
def answer(request: HttpRequest, pk: int, order: str) -> HttpResponse:
    """The answer of the node, as a part of the page."""
    row = _seen(request, pk)
    try:
        found = page_trial.answer(order)
    except CrawlframeError as error:
        found = page_trial.Answer(problem=str(error))
    if request.GET.get("format") == "json":
        return JsonResponse({} if found is None else found.as_data())
    context = {"answer": found, "kept": row, "order": order}
    return TemplateResponse(request, "admin/crawlservice/_today.html", context)


def _record(request: HttpRequest, verb: str, row: KeptPage) -> None:
    record(verb, task=row.task_id, rid=str(row.rid), **by(request))


def _seen(request: HttpRequest, pk: int) -> KeptPage:
    check(request, "view_keptpage")
    return _row(pk)


def _content(row: KeptPage) -> ShownPage:
    try:
        return ShownPage.of(row)
    except (PageDamaged, StoreError) as error:
        raise Http404(str(error)) from None


def _row(pk: int | str) -> KeptPage:
    rows = KeptPage.objects.select_related("task", "body").defer("task__seeds", "body__data")
    return get_object_or_404(rows, pk=row_number(pk))
