"""The page of one kept page: its source, a frame without network, its headers and pictures, and the
items that its callback would yield today."""

from __future__ import annotations

import re

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from crawlframe.errors import CrawlframeError, PageDamaged, StoreError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.whole_page import whole_page
from crawlservice.files import download
from crawlservice.models import KeptPage, Page, PageFile
from crawlservice.pages import page_trial, page_viewer
from crawlservice.pages.page_viewer import ShownPage

BODY = "crawlservice.view_pagebody"  # the right to see contents
ORDER = re.compile(r"[0-9a-f]{32}")  # the id of a trial
DOCUMENT, FRAME = "document", "iframe"  # Sec-Fetch-Dest of a page that is opened by itself, or not


def urls(site: AdminSite) -> list[URLPattern]:
    name = "crawlservice_keptpage_{}".format
    return [
        path("<int:pk>/frame/", site.admin_view(frame), name=name("frame")),
        path("<int:pk>/body/", site.admin_view(body), name=name("body")),
        path("<int:pk>/today/", site.admin_view(ask), name=name("today")),
        path("<int:pk>/today/<slug:order>/", site.admin_view(answer), name=name("answer")),
    ]


def page(site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
    row, content, problem = _row(pk), None, ""
    if request.user.has_perm(BODY):
        try:
            content = ShownPage.of(row)
            record("view_page", task=row.task_id, rid=str(row.rid), **by(request))
        except (PageDamaged, StoreError) as error:
            problem = str(error)
    files = PageFile.objects.select_related("file").filter(rid=row.rid, kind__in=download.SHOWN)
    return whole_page(
        *(site, request, "keptpage", _("Kept page")),
        opts=KeptPage._meta,
        kept=row,
        task=row.task,
        content=content,
        problem=problem,
        may_see=request.user.has_perm(BODY),
        request_page=Page.objects.filter(rid=row.rid).only("pk", "callback").first(),
        pictures=[*files] if request.user.has_perm(BODY) else [],
        order=order if ORDER.fullmatch(order := request.GET.get("order", "")) else "",
    )


@require_safe
def frame(request: HttpRequest, pk: int) -> HttpResponse:
    """The page for the frame: it is never shown by itself."""
    row = _seen(request, pk)
    if request.headers.get("Sec-Fetch-Dest") == DOCUMENT:
        return HttpResponseRedirect(_place(pk))
    content = _content(row)
    if request.headers.get("Sec-Fetch-Dest") != FRAME:  # not as a part of the page
        record("view_page", task=row.task_id, rid=str(row.rid), **by(request))
    return page_viewer.rendered(content)


@require_safe
def body(request: HttpRequest, pk: int) -> HttpResponse:
    """The body as an attachment."""
    row = _seen(request, pk)
    content = _content(row)
    record("download_page", task=row.task_id, rid=str(row.rid), **by(request))
    return page_viewer.attachment(content)


@require_POST
def ask(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks a node for the items that the callback would yield today."""
    row = _seen(request, pk)
    try:
        order = page_trial.ask(row)
    except CrawlframeError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(_place(pk))
    record("try_page", task=row.task_id, rid=str(row.rid), **by(request))
    return HttpResponseRedirect(f"{_place(pk)}?order={order}#cf-today")


@require_safe
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


def _seen(request: HttpRequest, pk: int) -> KeptPage:
    if not request.user.has_perm("crawlservice.view_keptpage") or not request.user.has_perm(BODY):
        raise PermissionDenied
    return _row(pk)


def _content(row: KeptPage) -> ShownPage:
    try:
        return ShownPage.of(row)
    except (PageDamaged, StoreError) as error:
        raise Http404(str(error)) from None


def _place(pk: int) -> str:
    return reverse("admin:crawlservice_keptpage_change", args=[pk])


def _row(pk: int | str) -> KeptPage:
    rows = KeptPage.objects.select_related("task", "body").defer("task__seeds", "body__data")
    return get_object_or_404(rows, pk=row_number(pk))
