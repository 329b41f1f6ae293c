"""robots.txt in the admin: the known file of each origin, and since when it cannot be read."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from crawlframe.errors import FrontierError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.read_only import SearchedRows
from crawlservice.display import badge, laid_out, moment
from crawlservice.ledger.robots import forget
from crawlservice.models import RobotsFile

TONES = {
    RobotsFile.State.PENDING: "muted",
    RobotsFile.State.RULES: "good",
    RobotsFile.State.NO_RULES: "muted",
    RobotsFile.State.NOT_TEXT: "warn",
    RobotsFile.State.UNREACHABLE: "bad",
    RobotsFile.State.GIVEN_UP: "bad",
}


@admin.register(RobotsFile)
class RobotsFileAdmin(SearchedRows):
    list_display = ("id", "origin", "state", "http_status", "delay", "read", "due", "note")
    list_display_links = ("id", "origin")
    list_filter = ("status",)
    search_fields = ("origin",)
    fields = (
        "origin", "state", "http_status", "reason", "note", "delay", "read", "counts_until",
        "unreachable", "due", "text",
    )  # fmt: skip
    actions = ("forget",)
    deferred = ("body",)  # up to 500 KiB each

    @admin.action(
        description=_("Forget selected files, so that they are read again"), permissions=["steer"]
    )
    def forget(self, request: HttpRequest, chosen: QuerySet[RobotsFile]) -> None:
        origins = [*chosen.order_by("origin").values_list("origin", flat=True)]
        try:
            n = forget(origins)
        except FrontierError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        record("forget robots", **by(request), origins=origins)
        text = ngettext(
            "{n} robots.txt file was forgotten", "{n} robots.txt files were forgotten", n
        ).format(n=n)
        self.message_user(request, text, messages.SUCCESS)

    @admin.display(description=_("state"))
    def state(self, row: RobotsFile) -> SafeString:
        told = badge(row.get_status_display(), TONES[RobotsFile.State(row.status)])
        if row.unreachable_since and row.status not in ("unreachable", "given_up"):
            return format_html("{} {}", told, badge(_("an old copy"), "warn"))
        return told

    @admin.display(description=_("Crawl-delay"))
    def delay(self, row: RobotsFile) -> str:
        return f"{row.crawl_delay:g} s" if row.crawl_delay else "-"

    read = column(moment, _("last read"), "read_at")
    counts_until = column(moment, _("valid until"), "known_until")
    unreachable = column(moment, _("unreachable since"), "unreachable_since")
    due = column(lambda row: moment(row.next_try or row.known_until), _("next read"))
    text = column(lambda row: laid_out(row.body) if row.body else "-", _("text"))
