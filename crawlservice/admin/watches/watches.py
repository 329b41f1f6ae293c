"""Watches in the admin: the list, and beginning one."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.accounts.roles import may_submit
from crawlservice.admin.parts.columns import column
from crawlservice.admin.parts.keyset import KeysetList
from crawlservice.admin.parts.lookups import with_facts
from crawlservice.admin.parts.own_page import OwnPage, RowPage
from crawlservice.admin.parts.whole_page import whole_page
from crawlservice.admin.watches import page as watchpage
from crawlservice.admin.watches.page import BeginForm
from crawlservice.display import badge
from crawlservice.models import Watch
from crawlservice.tasks import submit
from crawlservice.watches import editing
from crawlservice.watches.overview import Numbers, numbers_of

NOTHING_TO_WATCH = _(
    "No spider says when its pages are visited again. Give one revisit = Revisit(...)."
)


def _add_numbers(request: HttpRequest, watches: list[Any]) -> None:
    found = numbers_of([watch.pk for watch in watches])
    for watch in watches:
        watch.numbers = found[watch.pk]


def _of(watch: Watch) -> Numbers:
    found: Numbers | None = getattr(watch, "numbers", None)
    return found or numbers_of([watch.pk])[watch.pk]


@admin.register(Watch)
class WatchAdmin(OwnPage):
    row_page: ClassVar[RowPage] = watchpage
    list_display = (
        "name", "shown_state", "pages", "due", "today", "fresh", "gone", "failed", "created",
    )  # fmt: skip
    list_display_links = ("name",)
    list_filter = ("state",)
    search_fields = ("spider",)
    changelist = with_facts(_add_numbers, KeysetList)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return may_submit(request.user)

    def add_view(
        self,
        request: HttpRequest,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Starts to watch a spider."""
        if not may_submit(request.user):
            raise PermissionDenied
        infos = {}
        try:
            infos = {name: one for name, one in submit.spiders().items() if one.revisit}
        except CrawlframeError as error:
            messages.error(request, str(error))
        data = request.POST if request.method == "POST" else None
        form = BeginForm(sorted(infos), data, initial={"spider": request.GET.get("spider", "")})
        if request.method == "POST" and form.is_valid():
            try:
                watch = self._begin(request, form.cleaned_data)
            except CrawlframeError as error:
                form.add_error(None, str(error))
            else:
                messages.success(request, gettext("The watch has started"))
                address = reverse("admin:crawlservice_watch_change", args=[watch.pk])
                return HttpResponseRedirect(address)
        return whole_page(
            *(self.admin_site, request, "form_page", gettext("Watch the pages of a spider")),
            heading=gettext("Watch the pages of a spider"),
            opts=self.opts,
            form=form if infos else None,
            text="" if infos else NOTHING_TO_WATCH,
            button=gettext("Begin"),
            icon="visibility",
            back=reverse("admin:crawlservice_watch_changelist"),
            is_fullwidth="",
        )

    def _begin(self, request: HttpRequest, given: dict[str, Any]) -> Watch:
        watch = editing.begin(
            given["spider"],
            given["arguments"],
            budget=given["budget"],
            host_budget=given["host_budget"],
            user=request.user,
        )
        record("begin watch", **by(request), watch=watch.pk, spider=watch.spider)
        return watch

    name = column(str, _("watch"))

    @admin.display(description=_("state"))
    def shown_state(self, watch: Watch) -> SafeString:
        shown = badge(watch.get_state_display(), watchpage.STATES[watch.state])
        if not watch.problem:
            return shown
        return format_html('{}<span class="cf-why">{}</span>', shown, watch.problem)

    pages = column(lambda watch: f"{_of(watch).pages:,}", _("pages"))
    due = column(lambda watch: f"{_of(watch).due:,}", _("due"))
    today = column(lambda watch: f"{_of(watch).today:,}", _("visits today"))

    @admin.display(description=_("up to date"))
    def fresh(self, watch: Watch) -> str:
        fresh = _of(watch).fresh
        return "-" if fresh is None else f"{fresh:.0%}"

    gone = column(lambda watch: f"{_of(watch).gone:,}", _("gone"))
    failed = column(lambda watch: f"{_of(watch).failed:,}", _("failed"))
