"""The API as a whole: its parts, its address and its description."""

from __future__ import annotations

from django.urls import URLPattern
from ninja import NinjaAPI

from crawlservice.api import (
    alert_rules,
    alerts,
    error_groups,
    errors,
    events,
    exports,
    files,
    hosts,
    items,
    kept_pages,
    labels,
    log,
    nodes,
    pages,
    proxies,
    proxy_lists,
    quality,
    reparse,
    schedules,
    spiders,
    tables,
    tasks,
    watches,
)
from crawlservice.api.auth import Bearer, known_only
from crawlservice.api.limits import Rate, only_known

DESCRIPTION = """Submit crawls, watch and control them, and fetch their results.

Send a token: `Authorization: Bearer cf_…` (made in the admin, or by `python manage.py token add`).
Scope `read` only reads, `submit` also submits tasks and controls those of its user, `operate`
controls all that its user may. Lists are paged: pass `next` as `after`. Errors have the form
`{"error": {"code", "message", "field"}}`."""

api = NinjaAPI(
    title="Crawlframe",
    version="1",
    description=DESCRIPTION,
    urls_namespace="api",
    auth=Bearer("read", "view_task"),
    throttle=Rate(),
    docs_decorator=known_only,
)
errors.handle(api)
api.add_decorator(only_known)
PARTS = (
    tasks, reparse, quality, labels, log, items, tables, pages, kept_pages, files,
    error_groups,
    spiders, nodes, hosts, proxies, proxy_lists,
    schedules, watches, events, alerts, alert_rules, exports,
)  # fmt: skip
for part in PARTS:
    api.add_router("", part.router)

urls = api.urls
# The address of the older system, without a version.
new_task = next(
    pattern.callback
    for pattern in urls[0]
    if isinstance(pattern, URLPattern) and pattern.name == "new_task"
)
