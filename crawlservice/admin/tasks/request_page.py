"""The page of one request that ended: its exchange with the site, its outcome, its saved files, and
its retry."""

from __future__ import annotations

import shlex

from django.contrib import messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError, StoreError
from crawlservice.accounts.roles import may_steer
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.steering import retry_some
from crawlservice.admin.parts.whole_page import whole_page
from crawlservice.files import download
from crawlservice.models import ErrorGroup, KeptPage, Page, PageFile, ReplacedItem, Task

MAX_REPLACED = 50  # items on the page


def urls(site: AdminSite) -> list[URLPattern]:
    name = "crawlservice_page_{}".format
    return [
        path("<int:pk>/retry/", site.admin_view(retry), name=name("retry")),
        path("<int:pk>/files/<slug:sha256>/", site.admin_view(saved_file), name=name("file")),
        path("<int:pk>/pictures/<slug:sha256>/", site.admin_view(picture), name=name("picture")),
    ]


def page(site: AdminSite, request: HttpRequest, pk: str) -> HttpResponse:
    row = _row(pk)
    failed = row.state == Page.State.ERROR
    steers = may_steer(request.user, row.task)
    files = [*PageFile.objects.select_related("file").filter(rid=row.rid)]
    return whole_page(
        *(site, request, "request", _("Request")),
        opts=Page._meta,
        page=row,
        task=row.task,
        failed=failed,
        files=[one for one in files if one.kind not in download.SHOWN],
        pictures=[one for one in files if one.kind in download.SHOWN],
        group=_group(row),
        kept=KeptPage.objects.filter(rid=row.rid).only("pk").first(),
        replaced=_replaced(request, row),
        shell=shell_command(row.url, row.task.spider),
        may_retry=failed and steers and row.task.state not in Task.ACTIVE,
        wait_for_end=failed and steers and row.task.state in Task.ACTIVE,
    )


@require_safe
def saved_file(request: HttpRequest, pk: int, sha256: str) -> HttpResponseBase:
    """The download of a file that the request has saved."""
    if not request.user.has_perm("crawlservice.view_page"):
        raise PermissionDenied
    rows = PageFile.objects.select_related("file").filter(rid=_row(pk).rid)
    found = get_object_or_404(rows, file=sha256)
    try:
        return download.answer(found)
    except StoreError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(reverse("admin:crawlservice_page_change", args=[pk]))


@require_safe
def picture(request: HttpRequest, pk: int, sha256: str) -> HttpResponseBase:
    """A picture that the browser took of the page."""
    if not request.user.has_perm("crawlservice.view_page"):
        raise PermissionDenied
    return picture_of(PageFile.objects.filter(rid=_row(pk).rid, kind__in=download.SHOWN), sha256)


def picture_of(rows: QuerySet[PageFile], sha256: str) -> HttpResponseBase:
    """Raises Http404, also for a file that is no picture."""
    try:
        shown = download.picture(get_object_or_404(rows.select_related("file"), file=sha256))
    except StoreError as error:
        raise Http404(str(error)) from None
    if shown is None:
        raise Http404("no picture")
    return shown


@require_POST
def retry(request: HttpRequest, pk: int) -> HttpResponse:
    """Runs this request again; then its row is gone."""
    row = _row(pk)
    try:
        messages.success(request, retry_some(request, row.task, [row.rid]))
    except CrawlframeError as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(reverse("admin:crawlservice_page_change", args=[pk]))
    return HttpResponseRedirect(reverse("admin:crawlservice_task_change", args=[row.task_id]))


def shell_command(url: str, spider: str) -> str:
    """The command that opens a URL in a prompt, as the spider would fetch it; "" if it has none."""
    if not url.startswith(("http://", "https://")):
        return ""
    return command(f"fetch --shell {shlex.quote(url)} --spider {shlex.quote(spider)}")


def _group(row: Page) -> ErrorGroup | None:
    if row.error_group is None:
        return None
    return ErrorGroup.objects.filter(pk=row.error_group).first()


def _replaced(request: HttpRequest, row: Page) -> list[ReplacedItem]:
    """The newest of its items in whose place others were stored, if the user may see items."""
    if not request.user.has_perm("crawlservice.view_item"):
        return []
    return [*ReplacedItem.objects.filter(rid=row.rid).order_by("-pk")[:MAX_REPLACED]]


def _row(pk: int | str) -> Page:
    rows = Page.objects.select_related("task").defer("follow_ups", "request", "task__seeds")
    return get_object_or_404(rows, pk=row_number(pk))
