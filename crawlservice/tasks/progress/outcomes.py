"""Outcomes: how tasks ended. Each is decided once, in the transaction that ends the task."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Max, QuerySet

from crawlframe.base.secret import masked
from crawlframe.errors import CrawlframeError
from crawlframe.items.encode import clean_text
from crawlframe.request.request import end_rid, root_admission
from crawlframe.run.reasons import EXCLUDED, NO_ERRORS
from crawlframe.spider.setting_tables import flat
from crawlframe.spider.settings import SpiderSettings
from crawlservice.models import Event, Page, Proxy, Task
from crawlservice.models.task import REASON
from crawlservice.tasks.results.task_rows import of_task

COMPARED_RUNS = 5  # latest runs whose items are compared
MAX_ERRORS = 1_000  # errors of a task that are searched for the most frequent reason
EXIT_CODES = {Task.Outcome.FAILED: 1, Task.Outcome.CANCELLED: 3}  # 2 means a wrong call
KINDS = {
    Task.Outcome.FINISHED: Event.Kind.FINISHED,
    Task.Outcome.FINISHED_WITH_ERRORS: Event.Kind.FINISHED,  # as receivers have always had it
    Task.Outcome.FAILED: Event.Kind.FAILED,
    Task.Outcome.CANCELLED: Event.Kind.CANCELLED,
}


class Unsuccessful(CrawlframeError):
    """A task has failed or was cancelled. ``exit_code``: for a command that waited for it."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class OutcomeDecision(NamedTuple):
    """An outcome, and the reason for it in a sentence; "" if there is nothing to say."""

    outcome: Task.Outcome
    reason: str = ""


@dataclass(frozen=True)
class Ending:
    """The final numbers of a task, without its last request. ``limited``: links that page limits
    refused; ``deepest``: links from a start page to the deepest page fetched, None if none was;
    ``cancelled``: requests in NE that ended because the task was cancelled; ``excluded``: requests
    that politeness ended."""

    na: int
    nf: int
    ne: int
    items: int
    limited: int = 0
    deepest: int | None = None
    cancelled: int = 0
    excluded: int = 0

    def without(self, last: Page) -> Ending:
        """These numbers without the task's last request, which reports its end, and its items."""
        cancelled = last.is_cancelled
        done = last.state == Page.State.DONE
        return replace(
            self,
            na=self.na - 1,
            nf=self.nf - done,
            ne=self.ne - (not done),
            items=self.items - last.items,
            cancelled=self.cancelled - cancelled,
        )

    @property
    def pages(self) -> int:
        """The number of pages: neither the run of the spider's start nor a request that was
        cancelled or excluded is one."""
        return max(0, self.na - 1 - self.cancelled - self.excluded)

    @property
    def errors(self) -> int:
        return self.ne - self.cancelled - self.excluded


def decide(task: Task, end: Ending) -> OutcomeDecision:
    """The outcome of a task that was not cancelled. Raises django.db.Error."""
    if task.closing:
        # Unreached pages are no failure.
        if end.errors == 0:
            return OutcomeDecision(Task.Outcome.FINISHED, task.closing)
        failed = end.errors > _share(task) * end.pages
        outcome = Task.Outcome.FAILED if failed else Task.Outcome.FINISHED_WITH_ERRORS
        return OutcomeDecision(outcome, _short(f"{task.closing}; {_errors(task, end)}"))
    if task.watch_id is not None:  # a watch looks for pages that are gone
        errors = end.errors > 0
        kind = Task.Outcome.FINISHED_WITH_ERRORS if errors else Task.Outcome.FINISHED
        return OutcomeDecision(kind, _short(_errors(task, end)) if errors else "")
    if problem := (_problem if task.reparse is None else _parse_problem)(task, end):
        return OutcomeDecision(Task.Outcome.FAILED, _short(problem))
    if end.errors > 0:
        return OutcomeDecision(Task.Outcome.FINISHED_WITH_ERRORS, _short(_errors(task, end)))
    return OutcomeDecision(Task.Outcome.FINISHED)


def with_last(decision: OutcomeDecision, last: Page) -> OutcomeDecision:
    """The outcome after the last request of a task: an error in it counts as one."""
    if last.state == Page.State.DONE or last.is_cancelled:
        return decision
    outcome, reason = decision
    if outcome == Task.Outcome.FINISHED:
        outcome = Task.Outcome.FINISHED_WITH_ERRORS
    raised = f"closed failed: {_last_line(last.detail) or last.reason}"
    return OutcomeDecision(outcome, _short("; ".join(filter(None, (reason, raised)))))


def _share(task: Task) -> float:
    """The share of error pages above which a task counts as failed."""
    share: float = task.settings.get("failed_share", SpiderSettings().failed_share)
    return share


def _problem(task: Task, end: Ending) -> str:
    """Why the task has failed; "" if it has not."""
    if end.nf == 0 or (end.errors and _start_row(task).filter(state=Page.State.ERROR).exists()):
        return _start_failed(task)
    if end.pages == 0 and end.items == 0:
        if end.excluded:
            return f"every page was excluded{_most(_excluded_reasons(task))}"
        return "start led to no request; check that its URLs are in allowed_domains"
    if end.errors > _share(task) * end.pages or (end.nf == 1 and end.errors and not end.items):
        return _errors(task, end)
    if end.items or task.settings.get("fetch_only") or named_proxies(task):
        return ""
    if not end.deepest and not end.limited:
        return (
            f"nothing beyond the start pages was fetched, and there are no items{_but(task, end)}"
        )
    return _fewer_items(task)


def _parse_problem(task: Task, end: Ending) -> str:
    """The same for a task that parses kept pages: it has no items of its own."""
    if end.nf == 0 or (end.errors and _start_row(task).filter(state=Page.State.ERROR).exists()):
        return _start_failed(task)
    if end.pages == 0 and not end.excluded:
        callback = (task.reparse or {}).get("callback")
        return f"no kept page has the callback {callback!r}" if callback else "no page was kept"
    return _errors(task, end) if end.errors > _share(task) * end.pages else ""


def named_proxies(task: Task) -> bool:
    """Whether it has put proxies into the pool, which are no items."""
    return Proxy.objects.filter(source__spider=task.spider, named_by__gte=task.pk).exists()


def _start_row(task: Task) -> QuerySet[Page]:
    return Page.objects.filter(rid=UUID(bytes=root_admission(task.pk).rid))


def _start_failed(task: Task) -> str:
    reason, detail = _start_row(task).values_list("reason", "detail").first() or ("", "")
    return f"start failed: {_last_line(detail) or reason or 'nothing was fetched'}"


def _last_line(detail: str) -> str:
    """The last line of a traceback: the exception."""
    return detail.strip().rpartition("\n")[2].strip()


def _errors(task: Task, end: Ending) -> str:
    """A phrase such as ``10 of 12 pages ended in error, mostly http_429``."""
    rows = of_task(Page.objects.filter(state=Page.State.ERROR), task.pk, newest=True)
    rows = rows.exclude(reason__in=NO_ERRORS).exclude(rid=UUID(bytes=end_rid(task.pk)))
    found = [*rows.values_list("reason", "pk")[:MAX_ERRORS]]
    text = f"{end.errors:,} of {end.pages:,} pages ended in error"
    if not found:
        return text
    reasons = Counter(reason for reason, _ in found)
    most = reasons.most_common(1)[0][0]
    return f"{text}{_most(reasons)}{_raised(most, dict(found)[most])}"


def _raised(reason: str, page: int) -> str:
    """The exception of the callback or middleware, such as `` (KeyError: 'price')``."""
    if reason not in ("callback", "middleware", "pipeline"):
        return ""
    detail = Page.objects.values_list("detail", flat=True).get(pk=page)
    return f" ({_last_line(detail)})" if detail.strip() else ""


def _but(task: Task, end: Ending) -> str:
    text = f"; {_errors(task, end)}" if end.errors else ""
    if end.excluded:
        pages = "page was" if end.excluded == 1 else "pages were"
        text += f"; {end.excluded:,} {pages} excluded{_most(_excluded_reasons(task))}"
    return text


def _excluded_reasons(task: Task) -> Counter[str]:
    rows = of_task(Page.objects.filter(state=Page.State.ERROR), task.pk, newest=True)
    reasons = rows.filter(reason__in=EXCLUDED).values_list("reason", flat=True)
    return Counter(reasons[:MAX_ERRORS])


def _most(reasons: Counter[str]) -> str:
    """A phrase such as ``, mostly robots``; "" if there are none."""
    if not reasons:
        return ""
    often = "mostly" if len(reasons) > 1 else "all"
    return f", {often} {reasons.most_common(1)[0][0]}"


def _fewer_items(task: Task) -> str:
    """Why having no items is too few, compared with earlier runs; "" if it is not."""
    same = Task.objects.filter(spider=task.spider, reparse__isnull=True, watch=None)
    for rows in (same.filter(arguments_hash=task.arguments_hash), same):
        before = rows.filter(outcome__in=Task.COMPLETED).order_by("-pk").filter(pk__lt=task.pk)
        if runs := _without_last([*before.values_list("pk", "items", "ends")[:COMPARED_RUNS]]):
            most = max(runs, key=lambda run: (run[1] > 0, run[0]))
            return f"0 items; task {most[0]} had {most[1]:,}" if most[1] else ""
    return ""


def _without_last(runs: list[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """(task, items) without the items of last requests, from (task, items, has a last request)."""
    rids = {UUID(bytes=end_rid(task)): task for task, _, ends in runs if ends}
    rows = Page.objects.filter(rid__in=rids).values_list("rid", "items") if rids else ()
    of_last = {rids[rid]: items for rid, items in rows}
    return [(task, items - of_last.get(task, 0)) for task, items, _ in runs]


def arguments_hash(
    spider: str, arguments: dict[str, Any], overrides: dict[str, Any] | None = None
) -> int:
    """A number of 64 bits that runs of a spider with equal arguments and settings share. Secrets
    are left out: one that is easily guessed could be found by its hash."""
    own = [flat(overrides)] if overrides else []
    text = json.dumps([spider, masked(arguments), *own], sort_keys=True)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)


def compare(tasks: Iterable[Task]) -> None:
    """Notes with new tasks how many requests the last finished run with their arguments had."""
    hashes = {task.arguments_hash for task in tasks}
    rows = Task.objects.filter(arguments_hash__in=hashes, outcome__in=Task.COMPLETED).order_by()
    last = rows.values("arguments_hash").annotate(last=Max("pk")).values("last")
    runs = Task.objects.filter(pk__in=[*last.values_list("last", flat=True)])
    before = dict(runs.values_list("arguments_hash", "na"))
    for task in tasks:
        task.previous_na = before.get(task.arguments_hash)


def check(task: Task) -> None:
    """Raises Unsuccessful for a task that ended as failed or cancelled."""
    if task.outcome in EXIT_CODES:
        outcome = Task.Outcome(task.outcome)
        verb = "has failed" if outcome == Task.Outcome.FAILED else "was cancelled"
        why = f": {task.reason}" if task.reason else ""
        raise Unsuccessful(f"task {task.pk} {verb}{why}", EXIT_CODES[outcome])


def _short(text: str) -> str:
    text = " ".join(clean_text(text).split())
    return text if len(text) <= REASON else f"{text[: REASON - 1]}…"
