"""Cases in the admin: the list, and the page of one with its cause, its proof and examples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by
from crawlservice.admin.parts.filters import filter_by
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.owned import Owned, OwnerFilter
from crawlservice.admin.parts.pages import POST, may, page, place_of, to, to_row, whole_page
from crawlservice.admin.parts.read_only import OwnPage
from crawlservice.alerts import dashboard_summary
from crawlservice.cases import decisions
from crawlservice.cases.wording import owners_of, proof_of, proposals_of, sentence_of
from crawlservice.display import badge, moment
from crawlservice.models import Alert, Case, CaseSpider, KeptPage

TONES = {"open": "bad", "acknowledged": "primary", "fixed": "good", "closed": "muted"}
WORDS = re.compile(r"\w+|\W")
OFFERED = 200  # spiders in the filter


class CaseOwnerFilter(OwnerFilter):
    field = "spiders__spider"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return super().queryset(request, queryset).distinct()


StateFilter = filter_by(
    *(_("state"), "state", lambda: Case.State.choices),
    lambda rows, state: rows.filter(state=state),
)
CauseFilter = filter_by(
    *(_("cause"), "cause", lambda: Case.Cause.choices),
    lambda rows, cause: rows.filter(cause=cause),
)
SpiderFilter = filter_by(
    *(_("spider"), "spider", lambda: zip(*[_spiders()] * 2, strict=True)),
    lambda rows, spider: rows.filter(spiders__spider=spider),
    takes_any=True,
)


def _spiders() -> list[str]:
    rows = CaseSpider.objects.order_by("spider").values_list("spider", flat=True)
    return [*rows.distinct()[:OFFERED]]


def state_badge(case: Case) -> SafeString:
    return badge(case.get_state_display(), TONES[case.state])


@admin.register(Case)
class CaseAdmin(Owned, OwnPage):
    list_display = ("id", "shown_cause", "sentence", "owner", "shown_state", "began", "over", "who")
    list_display_links = ("id",)
    list_filter = (StateFilter, CauseFilter, SpiderFilter, CaseOwnerFilter)
    list_select_related = ("acknowledged_by",)
    actions = ("acknowledge", "close")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Case]:
        return super().get_queryset(request).prefetch_related("spiders")

    def has_handle_permission(self, request: HttpRequest) -> bool:
        return may(request, "handle_case")

    def row_page(self, request: HttpRequest, pk: str) -> HttpResponse:
        rows = Case.objects.select_related("acknowledged_by").prefetch_related("spiders")
        case: Case = get_object_or_404(rows, pk=row_number(pk) or 0)
        alert = Alert.objects.filter(kind="case", subject=str(case.pk)).order_by("-pk").first()
        return whole_page(
            *(request, "case", case.get_cause_display()),
            case=case,
            sentence=sentence_of(case),
            proof=proof_of(case),
            badge=state_badge(case),
            examples=_examples(case),
            proposals=_proposals(case),
            spiders=case.spiders.all(),
            alert=alert,
            earlier=Case.objects.filter(pk=case.earlier or 0).first(),
            opts=self.opts,
            is_fullwidth="",
        )

    @admin.display(description=_("cause"))
    def shown_cause(self, case: Case) -> str:
        return case.get_cause_display()

    @admin.display(description=_("what"))
    def sentence(self, case: Case) -> SafeString:
        text = sentence_of(case)
        return format_html('<a class="cf-link cf-code" href="{}">{}</a>', place_of(case), text)

    @admin.display(description=_("owner"))
    def owner(self, case: Case) -> str:
        return ", ".join(owners_of(case)) or "-"

    shown_state = column(state_badge, _("state"))
    began = column(moment, _("since"), "since")
    over = column(moment, _("ended"), "ended_at")

    @admin.display(description=_("acknowledged by"))
    def who(self, case: Case) -> str:
        return case.acknowledged_by.get_username() if case.acknowledged_by else "-"

    # -- actions ----------------------------------------------------------------------------------

    @admin.action(description=_("Acknowledge"), permissions=["handle"])
    def acknowledge(self, request: HttpRequest, chosen: QuerySet[Case]) -> None:
        _tell(request, decisions.acknowledge(_numbers(chosen), by(request)))

    @admin.action(description=_("Close"), permissions=["handle"])
    def close(self, request: HttpRequest, chosen: QuerySet[Case]) -> None:
        _tell(request, decisions.close(_numbers(chosen), by(request)))


def _numbers(chosen: QuerySet[Case]) -> list[int]:
    return [*chosen.values_list("pk", flat=True)]


@page("crawlservice/case/<int:pk>/decide/", "crawlservice_case_decide", "handle_case", POST)
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Acknowledges or closes a case."""
    case = get_object_or_404(Case, pk=pk)
    match request.POST.get("verb"):
        case "acknowledge":
            done = decisions.acknowledge([pk], by(request))
        case "close":
            done = decisions.close([pk], by(request))
        case _:
            raise PermissionDenied
    _tell(request, done)
    return to("index") if request.POST.get("from") == "dashboard" else to_row(case)


def _tell(request: HttpRequest, number: int) -> None:
    dashboard_summary.snapshot.clear()
    messages.success(request, _("Cases changed: %d") % number)


# -- examples --------------------------------------------------------------------------------------


class ValuePart(NamedTuple):
    """A part of a value. ``differs``: it is not in the other one."""

    text: str
    differs: bool


class ShownExample(NamedTuple):
    """The pages are numbers of kept ones; 0 for one that is gone."""

    field: str
    url: str
    place: str
    old: list[ValuePart]
    new: list[ValuePart]
    old_page: int
    new_page: int


def _examples(case: Case) -> list[ShownExample]:
    numbers = {one[name] for one in case.examples for name in ("old_page", "new_page")}
    kept = {*KeptPage.objects.filter(pk__in=numbers).values_list("pk", flat=True)}
    return [
        ShownExample(
            one["field"],
            one["url"],
            one["place"],
            *marked(one["old"], one["new"]),
            old_page=one["old_page"] if one["old_page"] in kept else 0,
            new_page=one["new_page"] if one["new_page"] in kept else 0,
        )
        for one in case.examples
    ]


def _proposals(case: Case) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Spider, field, and its proposals."""
    keys = itemgetter("spider", "field")
    return [(*key, [*some]) for key, some in groupby(proposals_of(case), keys)]


def marked(old: str, new: str) -> tuple[list[ValuePart], list[ValuePart]]:
    """The parts of two values; words that differ are marked. Nothing is, if one is empty."""
    if not old or not new:
        return _parts([(old, False)]), _parts([(new, False)])
    one, other = WORDS.findall(old), WORDS.findall(new)
    steps = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return (
        _parts(("".join(one[i:j]), kind != "equal") for kind, i, j, _, _ in steps),
        _parts(("".join(other[k:m]), kind != "equal") for kind, _, _, k, m in steps),
    )


def _parts(some: Iterable[tuple[str, bool]]) -> list[ValuePart]:
    return [ValuePart(text, differs) for text, differs in some if text]
