"""The web: the admin, and a health check for whoever watches the service."""

from __future__ import annotations

from django.contrib import admin
from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.urls import include, path
from django.views.generic import RedirectView
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.redis import frontier
from crawlservice.setuppage import setup


def healthz(request: HttpRequest) -> JsonResponse:
    """200 when database and Redis answer, else 503; which of them, as JSON."""
    health = {"database": _database_answers(), "redis": _redis_answers()}
    return JsonResponse(health, status=200 if all(health.values()) else 503)


def _database_answers() -> bool:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return False
    return True


def _redis_answers() -> bool:
    try:
        frontier().redis.ping()
    except (RedisError, CrawlframeError):
        return False
    return True


admin.autodiscover()
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("setup/<str:token>/", setup, name="setup"),
    path("i18n/", include("django.conf.urls.i18n")),
    path("healthz", healthz),
]
