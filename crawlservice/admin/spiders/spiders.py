"""Spiders in the admin: the list, and the page of each, with its runs, errors and schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils.html import format_html_join
from django.utils.translation import gettext as _

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by
from crawlservice.accounts.roles import may_submit
from crawlservice.admin.parts.pages import FORM, check, live, may, page, to, whole_page
from crawlservice.admin.schedules.schedules import zone_of
from crawlservice.config import effective
from crawlservice.display import moment
from crawlservice.hosts.host_labels import wait_of
from crawlservice.models import MAX_REASON, Schedule, Task
from crawlservice.monitoring import owners
from crawlservice.scheduling.timing import in_words
from crawlservice.tasks import spider_runs, spider_switch
from crawlservice.tasks.progress import rendering
from crawlservice.tasks.progress.progress import read
from crawlservice.tasks.results import error_groups
from crawlservice.tasks.spider_runs import SpiderRun

TEMPLATES = 100  # shown of a spider
SCHEDULES = 50  # shown of a spider
ERRORS = 10  # groups of errors shown
TONES = ("primary", "warn", "good", "muted", "bad")  # of the fields of a chart


@page("spider-names/", "spider_names")
def names(request: HttpRequest) -> HttpResponse:
    """The known spiders, as options of ``<datalist>``."""
    known = spider_runs.overview().found if may(request, "view_task") else ()
    return HttpResponse(format_html_join("", '<option value="{}">', ((s.name,) for s in known)))


def may_switch(request: HttpRequest) -> bool:
    """Whether the user may change settings for all tasks of a spider: the right to control the
    tasks of others."""
    return may(request, "steer_task")


@page("spiders/", "spiders", "view_task")
def index(request: HttpRequest) -> HttpResponse:
    found, owner = spider_runs.overview(), request.GET.get("owner", "")
    shown = found.found
    if owner:
        its = {*owners.spiders_of(owner, request.user)}
        shown = [spider for spider in shown if spider.name in its]
    return whole_page(
        *(request, "spiders", _("Spiders")),
        spiders=shown,
        complete=found.complete,
        waits=_waits(spider.last for spider in shown if spider.last),
        owner=owner,
        all_owners=owners.all_owners(),
    )


@page("spiders/<path:name>", "spider", "view_task", FORM)
def spider_page(request: HttpRequest, name: str) -> HttpResponse:
    """Shows the spider; POST disables or enables it, or forgets which pages need the browser."""
    spider = spider_runs.look_up(name) if "\0" not in name else None
    if spider is None:
        raise Http404
    if request.method == "POST":
        return _switch(request, name)
    runs = spider_runs.runs(name)
    templates = rendering.templates(name)
    return whole_page(
        *(request, "spider", _("Spider {name}").format(name=name)),
        spider=spider,
        owners=owners.owners().get(name, ()),
        own_settings=spider.info and effective.changed(effective.of_spider(spider.info)),
        runs=runs,
        waits=_waits(Task.objects.filter(pk__in=[r.task for r in runs if r.seconds is None])),
        covered=_covered(runs),
        groups=error_groups.latest(spider=name, count=ERRORS).groups,
        templates=(templates or [])[:TEMPLATES],
        more_templates=max(0, len(templates or []) - TEMPLATES),
        chooses=bool(templates) or (spider.info is not None and spider.info.settings.render),
        unknown=templates is None,
        most_runs=spider_runs.RUNS,
        schedules=_schedules(name),
        longest=MAX_REASON,
        may_switch=may_switch(request),
        may_submit=may_submit(request.user),
    )


@live("spider-runs/<path:name>", "spider_runs", "view_task")
def runs_chart(request: HttpRequest, name: str) -> JsonResponse:
    """The latest runs of a spider as the points of a chart."""
    if "\0" in name:
        raise Http404
    return JsonResponse({"points": spider_runs.points(spider_runs.runs(name)), "ended": False})


def _switch(request: HttpRequest, name: str) -> HttpResponse:
    check(request, "steer_task")
    try:
        if request.POST.get("verb") == "enable":
            spider_switch.enable(name, by(request))
            messages.success(request, _("The spider is enabled."))
        elif request.POST.get("verb") == "forget":
            rendering.forget(name, request.POST.get("template", ""), by(request))
            messages.success(request, _("It is forgotten. The next pages are fetched plainly."))
        else:
            spider_switch.disable(name, request.POST.get("reason", ""), by(request))
            messages.success(request, _("The spider is disabled. Its running tasks continue."))
    except CrawlframeError as error:
        messages.error(request, str(error))
    return to("spider", name)


def _waits(tasks: Iterable[Task]) -> dict[int, str]:
    """Reason for waiting, by number of the task; only of tasks that fetch nothing now."""
    return {known.task.pk: wait_of(known.wait) for known in read(tasks) if known.wait}


def _covered(runs: Sequence[SpiderRun]) -> dict[str, str]:
    """The chart of the coverage: its series, their labels and colours, each separated by bars."""
    names = spider_runs.covered_fields(runs)
    series = [spider_runs.coverage_series(name) for name in names]
    return {
        "series": "|".join(series),
        "labels": "|".join(one.partition(" ")[2] or "–" for one in series),
        "tones": "|".join(TONES[: len(names)]),
    }


def _schedules(name: str) -> list[dict[str, Any]]:
    rows = Schedule.objects.filter(spider=name).order_by("name")[:SCHEDULES]
    return [
        {
            "row": row,
            "when": f"{in_words(row.cron, row.every)} ({row.timezone})",
            "next": moment(row.next_at, zone_of(row)) if row.enabled and row.next_at else "",
        }
        for row in rows
    ]
