"""Nodes in the admin: the lives of nodes, the code that each runs, and the code it refused; and the
dashboard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.utils import display_for_value
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext_lazy as _

from crawlframe.identity.identity import Introduction
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.keyset import KeysetList
from crawlservice.admin.parts.lookups import column, with_facts
from crawlservice.admin.parts.pages import POST, SPAN_NAMES, SPANS, live, may, page, to, whole_page
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.admin.previews import asking_of, decision_context
from crawlservice.alerts import dashboard_summary
from crawlservice.connections.lookup import NotFound
from crawlservice.display import CODE_STATES, badge, condition_badge, laid_out
from crawlservice.models import Generation, Task
from crawlservice.monitoring import charts, lives, nodes, overview
from crawlservice.monitoring.nodes import Node

RATES = ("pages", "items", "errors")
BAD_STATES = ("refused", nodes.OFFLINE)


class Lives(admin.SimpleListFilter):
    """Filter: the lives that the cluster knows now, or all there ever were."""

    title = _("lives")
    parameter_name = "lives"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("all", str(_("all, including ended ones")))]

    def choices(self, changelist: Any) -> Iterator[Any]:
        now, *others = super().choices(changelist)
        yield {**now, "display": _("in the cluster now")}
        yield from others

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        known = cluster(request)
        return queryset if self.value() or known is None else queryset.filter(pk__in=known)


def _add_known(request: HttpRequest, rows: list[Any]) -> None:
    known = cluster(request)
    for life in rows:
        life.known = known


def cluster(request: HttpRequest) -> dict[int, Node] | None:
    """``nodes.by_generation``, once per page load."""
    if not hasattr(request, "cluster"):
        request.cluster = nodes.by_generation()  # type: ignore[attr-defined]
    found: dict[int, Node] | None = request.cluster  # type: ignore[attr-defined]
    return found


def node_of(life: Generation) -> Node | None:
    """The node of this life; None if it has ended or Redis is unreachable."""
    if not hasattr(life, "known"):
        life.known = nodes.by_generation()  # type: ignore[attr-defined]
    known: dict[int, Node] | None = life.known  # type: ignore[attr-defined]
    return known.get(life.pk) if known else None


def _of_node(show: Callable[[Node], Any], title: Any) -> Callable[..., Any]:
    """A column for lives that the cluster knows."""

    def shown(life: Generation) -> Any:
        node = node_of(life)
        found = show(node) if node else None
        return found if isinstance(found, SafeString) else display_for_value(found or None, "-")

    return column(shown, title)


def _condition_and_why(node: Node) -> SafeString:
    told = condition_badge(node.condition)
    if node.condition != nodes.ABNORMAL:
        return told
    return format_html("{} {}", told, "; ".join(node.reasons))


def _code(node: Node) -> SafeString | str:
    return (
        format_html("{} {}", node.version, badge(_("differs"), "bad"))
        if node.skew
        else node.version
    )


@admin.register(Generation)
class GenerationAdmin(ReadOnly):
    list_display = (
        "id", "node", "condition", "state", "age", "holds", "code", "took", "reloads",
        "candidate", "headline",
    )  # fmt: skip
    list_display_links = ("id", "node")
    list_filter = (Lives,)
    search_fields = ("=id", "node", "machine")
    fields = (
        "node", "machine", "pid", "started_at", "fate", "ended_at", "given_back",
        "condition_and_why", "disk", "holds", "workers", "state", "since", "code", "candidate",
        "problem", "took", "reloads", "follows", "pulled", "pull_problem",
    )  # fmt: skip
    actions = ("forget",)
    change_form_outer_before_template = "admin/crawlservice/generation/offline.html"

    candidate = _of_node(lambda node: node.candidate, _("candidate"))
    since = _of_node(lambda node: node.since, _("state since"))
    workers = _of_node(lambda node: f"{node.workers:,}", _("workers"))
    holds = _of_node(lambda node: f"{node.holds:,}", _("in progress"))
    reloads = _of_node(lambda node: f"{node.reloads:,}", _("reloads"))
    follows = _of_node(lambda node: node.follows, _("follows"))
    pulled = _of_node(lambda node: node.pulled, _("pulled"))
    headline = _of_node(lambda node: node.headline, _("problem"))
    condition = _of_node(lambda node: condition_badge(node.condition), _("condition"))
    condition_and_why = _of_node(_condition_and_why, _("condition"))
    age = _of_node(lambda node: node.since and timesince(node.since, depth=1), _("duration"))
    code = _of_node(_code, _("code version"))
    disk = _of_node(lambda node: f"{node.health.disk} %", _("disk in use"))
    took = _of_node(lambda n: n.seconds and f"{n.seconds:.2f} s", _("last reload took"))
    problem = _of_node(lambda node: node.problem and laid_out(node.problem), _("problem"))
    pull_problem = _of_node(
        lambda n: n.pull_problem and laid_out(n.pull_problem), _("pull problem")
    )
    changelist = with_facts(_add_known, KeysetList)

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        known = cluster(request)
        if known is None:
            text = _("{why}: the state of the nodes is unknown").format(why=nodes.why_unknown())
            self.message_user(request, text, messages.WARNING)
        elif skew := nodes.skew_line(known.values()):
            self.message_user(request, skew, messages.WARNING)
        return {}

    def has_forget_permission(self, request: HttpRequest) -> bool:
        return may(request, "forget_generation")

    def form_context(self, request: HttpRequest, pk: str | None) -> dict[str, Any]:
        return {
            "may_forget": self.has_forget_permission(request),
            **decision_context(request, asking_of((cluster(request) or {}).values(), pk)),
        }

    @admin.action(description=_("Forget selected offline nodes"), permissions=["forget"])
    def forget(self, request: HttpRequest, chosen: QuerySet[Generation]) -> None:
        _forget(request, chosen)

    @admin.display(description=_("code"))
    def state(self, life: Generation) -> SafeString | str:
        node = node_of(life)
        if node is None:
            return str(_("unknown") if life.known is None else _("ended"))  # type: ignore[attr-defined]
        told = CODE_STATES.get(node.state, node.state)
        return badge(told, "bad") if node.state in BAD_STATES else str(told)


@page(
    "crawlservice/generation/<int:pk>/forget/",
    *("crawlservice_generation_forget", "forget_generation", POST),
)
def forget_one(request: HttpRequest, pk: int) -> HttpResponse:
    """The button on the page of a node that is offline."""
    _forget(request, Generation.objects.filter(pk=pk))
    return to("crawlservice_generation_changelist")


def _forget(request: HttpRequest, chosen: QuerySet[Generation]) -> None:
    for name in sorted({*chosen.filter(offline=True).values_list("node", flat=True)}):
        try:
            lives.forget(name)
        except NotFound as error:  # someone else was faster
            messages.warning(request, str(error))
            continue
        record("forget node", **by(request), node=name)
        text = _("Node {node} was removed from the list").format(node=name)
        messages.success(request, text)


def dashboard(request: HttpRequest) -> HttpResponse:
    return whole_page(
        *(request, "dashboard", _("Dashboard")),
        spans=SPAN_NAMES,
        first=not Task.objects.exists(),
        **_now(),
    )


@live("overview/", "overview", "view_task")
def now(request: HttpRequest) -> HttpResponse:
    return TemplateResponse(request, "admin/crawlservice/_now.html", _now())


@live("overview/hosts/", "overview_hosts", "view_page")
def hosts(request: HttpRequest) -> HttpResponse:
    found = overview.hosts()
    shown = (host.name for host in (*found.slowest, *found.failing))
    nameless = Introduction(settings.CRAWLFRAME.user_agent).missing_for(shown)
    context = {"hosts": found, "nameless": bool(nameless)}
    return TemplateResponse(request, "admin/crawlservice/_hosts.html", context)


@live("overview/chart/", "overview_chart", "view_task")
def chart(request: HttpRequest) -> JsonResponse:
    span = SPANS.get(request.GET.get("span", ""), SPANS["hour"])
    return JsonResponse({"points": charts.of_cluster(span), "ended": False})


def _now() -> dict[str, Any]:
    rates = charts.of_cluster(SPANS["hour"])
    last = {name: rates[name][-1] or 0.0 if rates else 0.0 for name in RATES}
    return {"needs": dashboard_summary.snapshot(), "overview": overview.snapshot(), "now": last}
