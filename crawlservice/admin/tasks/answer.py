"""The summary on a task's page: its items against the last good run, its duration, its waits, and
its problems."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.translation import gettext as _

from crawlframe.proxies.place import host_in
from crawlservice.accounts.roles import may_steer
from crawlservice.admin.pages import reparse as reparsepage
from crawlservice.admin.tasks.task_view import TaskView
from crawlservice.display import task_link
from crawlservice.hosts.host_labels import wait_of
from crawlservice.models import Profile, Task
from crawlservice.monitoring import charts
from crawlservice.proxies.use import lacks_of, no_proxy
from crawlservice.quality import deviation
from crawlservice.quality.wording import words_of
from crawlservice.reparse.submission import fetches
from crawlservice.tasks.progress import layers
from crawlservice.tasks.progress.budgets import stops, traps_of
from crawlservice.tasks.progress.forecast import Forecast
from crawlservice.tasks.progress.progress import Progress, yielded
from crawlservice.tasks.progress.run_history import histories, last_good
from crawlservice.tasks.progress.stats import of_task as stats_of
from crawlservice.tasks.progress.summary import causes_of, parked_of
from crawlservice.tasks.stored_limits import limits_as_written, obeys_robots

CAUSES = 3  # of errors, with an example each


def numbers(known: Forecast) -> dict[str, Any]:
    """Items and time of a task, for the template."""
    progress = known.progress
    task, rate = progress.task, charts.rate(progress)
    return {
        "items": None if task.reparse else _items(progress),
        "rate": rate,
        "eta": known.seconds(rate),
        "delay": limits_as_written(task).get("delay") if fetches(task) else None,
        "wait": progress.wait and wait_of(progress.wait),
        "wait_host": progress.wait and host_in(progress.wait.host),
        "lacks": [] if progress.ended else [no_proxy(one) for one in lacks_of(task.pk)],
        "starting": None if progress.ended else yielded([task.pk]).get(task.pk),
    }


def _items(progress: Progress) -> dict[str, Any]:
    """``words``: how many there are, in comparison with the last good run."""
    task, now = progress.task, progress.items
    good, trend = last_good(task), histories([task])[task.pk].items
    if good is None:
        return {"words": _("There is no good run before it."), "trend": trend}
    before = good.items
    if not progress.ended:
        text = _("{before} in the last good run, task {task}")
    elif now == before:
        text = _("As many as in the last good run, task {task}")
    elif now > before:
        text = _("{n} more{share} than in the last good run, task {task}")
    else:
        text = _("{n} fewer{share} than in the last good run, task {task}")
    share = f" ({100 * abs(now - before) / before:.0f} %)" if before else ""
    n, link = f"{abs(now - before):,}", task_link(good.pk)
    words = format_html(text, n=n, before=f"{before:,}", share=share, task=link)
    return {"words": words, "few": progress.ended and 2 * now < before, "trend": trend}


def problems(request: HttpRequest, view: TaskView) -> dict[str, Any]:
    """The problems of a task, for the template, and further consequences of them."""
    task, progress = view.task, view.progress
    stats = stats_of(task.pk)
    findings = deviation.of_task(task.pk)
    profile = Profile.objects.filter(task=task).defer("content").first()
    judged = profile is not None and profile.judged
    is_open = judged and any(one.accepted_at is None for one in findings)
    found = {
        "causes": causes_of(task)[:CAUSES] if progress.errors else [],
        "findings": [(one, words_of(one)) for one in findings],
        "stops": stops(progress, stats),
        "traps": traps_of([task.pk]).get(task.pk, []),
    }
    return {
        **found,
        "progress": progress,
        "well": task.outcome != Task.Outcome.FAILED and not any(found.values()),
        "judged": judged,
        "may_accept": is_open and may_steer(request.user, task),
        "ignores_robots": not obeys_robots(task) and fetches(task),
        "parked": parked_of(task) if progress.parked else [],
        "layers": layers.of_task(progress),
        "waits_for_hand": layers.waits_for_hand(task),
        **reparsepage.shown(task),
        "lives": not progress.ended or (profile is not None and not judged),
    }
