"""Lists without editing: nothing counted, the newest rows first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.filters import state_filter
from crawlservice.admin.parts.keyset import KeysetList, SearchedList, latest
from crawlservice.admin.parts.lookups import DeclaredLookups, column
from crawlservice.display import badge, label_chips, moment, task_link
from crawlservice.outbox.outbox import Outbox

URL_CHARS = 150  # characters of a URL in the list


class ReadOnly(DeclaredLookups):
    """Only nodes write the ledger and its derived rows."""

    show_full_result_count = False
    list_per_page = 50
    list_fullwidth = True
    sortable_by: Sequence[str] = ()
    actions: Sequence[str] | None = None
    changelist = KeysetList

    created = column(moment, _("created"), "created_at")
    task_number = column(task_link, _("task"), "task_id")

    @admin.display(description=_("labels"))
    def shown_labels(self, row: Any) -> SafeString | str:
        """Labels of the row's task, which the list has looked up."""
        return label_chips(row.known_labels, "")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_steer_permission(self, request: HttpRequest) -> bool:
        """The right to control the tasks of others, which most actions of these lists need."""
        return request.user.has_perm("crawlservice.steer_task")


class OwnPage(ReadOnly):
    """A list whose rows have a page of their own instead of Django's form."""

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        """The page of a row, for a user who may see the rows."""
        raise NotImplementedError

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        if request.method not in ("GET", "HEAD") or not self.has_view_permission(request):
            raise PermissionDenied
        return self.row_page(request, object_id)


class SearchedRows(ReadOnly):
    """A list that searches the latest rows."""

    changelist = SearchedList

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        rows = latest(queryset, request) if search_term else queryset
        found: tuple[QuerySet[Any], bool] = super().get_search_results(request, rows, search_term)
        return found


class UrlRows(SearchedRows, OwnPage):
    """A list of rows with a URL of a task."""

    search_fields = ("url",)
    search_help_text = _("Part of the URL")
    short_url = column(lambda url: Truncator(url).chars(URL_CHARS), _("URL"), "url")

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        if text := search_term.strip():
            queryset = latest(queryset, request).filter(url__icontains=text)
        return queryset, False


OUTBOX_STATES = {
    "waiting": (_("waiting"), "muted"),
    "retrying": (_("retrying"), "warn"),
    "sent": (_("sent"), "good"),
    "failed": (_("given up"), "bad"),
}


def outbox_filter(outbox: Outbox[Any]) -> type[admin.SimpleListFilter]:
    """The filter of a list by the states of an outbox."""
    return state_filter(
        {name: (OUTBOX_STATES[name][0], rows) for name, rows in outbox.states.items()}
    )


class OutboxRows(ReadOnly):
    """The messages of an outbox, with their states, to be sent again. ``steers``: the right to."""

    outbox: ClassVar[Outbox[Any]]
    steers: ClassVar[str]
    actions = ("send_again",)

    def has_send_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(self.steers)

    def resend(self, row: Any) -> dict[str, Any]:
        """Sends one again. Returns the facts for the journal."""
        raise NotImplementedError

    @admin.display(description=_("state"))
    def state(self, row: Any) -> SafeString:
        return badge(*OUTBOX_STATES[self.outbox.state(row)])

    next_try = column(moment, _("next attempt"), "next_at")

    @admin.action(description=_("Send again"), permissions=["send"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        for row in chosen:
            record(**by(request), **self.resend(row))
        text = _("messages to be sent again: %d") % len(chosen)
        self.message_user(request, text, messages.SUCCESS)
