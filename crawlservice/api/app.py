"""The API as a whole: its parts, its address and its description."""

from __future__ import annotations

from django.urls import URLPattern
from ninja import NinjaAPI

from crawlframe.base.program import command
from crawlservice.api import events, nodes, previews
from crawlservice.api.alerts import alerts, cases
from crawlservice.api.error_groups import error_groups
from crawlservice.api.exports import exports
from crawlservice.api.hosts import hosts
from crawlservice.api.pages import kept_pages, reparse
from crawlservice.api.parts import errors
from crawlservice.api.parts.auth import Bearer, known_only
from crawlservice.api.proxies import proxies
from crawlservice.api.schedules import schedules
from crawlservice.api.spiders import spiders
from crawlservice.api.tasks import files, labels, quality, tables, tasks
from crawlservice.api.tasks.limits import Rate, only_known
from crawlservice.api.watches import watches

DESCRIPTION = f"""Submit crawls, watch and control them, and fetch their results.

Send a token: `Authorization: Bearer cf_…` (made in the admin, or by `{command("token add")}`).
Scope `read` only reads, `submit` also submits tasks and controls those of its user, `operate`
controls all that its user may. Lists are paged: pass `next` as `after`. Errors have the form
`{{"error": {{"code", "message", "field"}}}}`."""

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
    tasks, reparse, quality, labels, tables, kept_pages, files, error_groups,
    spiders, nodes, previews, hosts, proxies, schedules, watches, events, alerts, cases, exports,
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
