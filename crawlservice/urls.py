"""The web: the admin, the API, and the pages for monitoring."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

from crawlframe.identity.signing import DIRECTORY
from crawlservice.accounts.setup_link import setup
from crawlservice.api import app
from crawlservice.api.health import healthz, readyz
from crawlservice.api.metrics import metrics
from crawlservice.api.scrapyd import views as scrapyd
from crawlservice.identity.bot_keys import directory

handler400 = "crawlservice.web.refusals.refused"

admin.autodiscover()
urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("api/v1/", app.urls),
    path("new_task", app.new_task),
    path("setup/<str:token>/", setup, name="setup"),
    path("i18n/", include("django.conf.urls.i18n")),
    path("healthz", healthz),
    path("readyz", readyz),
    path("metrics", metrics),
    *scrapyd.urls,
    path(DIRECTORY.lstrip("/"), directory),
]
