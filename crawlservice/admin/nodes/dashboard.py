"""The first page of the admin: the cluster at a glance."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.admin import AdminSite
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext_lazy as _

from crawlframe.identity.identity import Introduction
from crawlservice.admin.parts.live import SPAN_NAMES, SPANS, part
from crawlservice.alerts import dashboard_summary
from crawlservice.monitoring import charts, overview

RATES = ("pages", "items", "errors")


def urls(site: AdminSite) -> list[URLPattern]:
    return [
        path("overview/", part(site, now, "view_task"), name="overview"),
        path("overview/hosts/", part(site, hosts, "view_page"), name="overview_hosts"),
        path("overview/chart/", part(site, chart, "view_task"), name="overview_chart"),
    ]


def page(site: AdminSite, request: HttpRequest) -> HttpResponse:
    context: dict[str, Any] = {
        **site.each_context(request),
        "title": _("Dashboard"),
        "spans": SPAN_NAMES,
        "is_fullwidth": "1",
        **_now(),
    }
    return TemplateResponse(request, "admin/crawlservice/dashboard.html", context)


def now(request: HttpRequest) -> HttpResponse:
    return TemplateResponse(request, "admin/crawlservice/_now.html", _now())


def hosts(request: HttpRequest) -> HttpResponse:
    found = overview.hosts()
    shown = (host.name for host in (*found.slowest, *found.failing))
    nameless = Introduction(settings.CRAWLFRAME.user_agent).missing_for(shown)
    context = {"hosts": found, "nameless": bool(nameless)}
    return TemplateResponse(request, "admin/crawlservice/_hosts.html", context)


def chart(request: HttpRequest) -> JsonResponse:
    span = SPANS.get(request.GET.get("span", ""), SPANS["hour"])
    return JsonResponse({"points": charts.of_cluster(span), "ended": False})


def _now() -> dict[str, Any]:
    rates = charts.of_cluster(SPANS["hour"])
    last = {name: rates[name][-1] or 0.0 if rates else 0.0 for name in RATES}
    return {"needs": dashboard_summary.snapshot(), "overview": overview.snapshot(), "now": last}
