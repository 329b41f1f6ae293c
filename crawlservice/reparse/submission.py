"""Submission: tasks that parse kept pages by the code of today."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from django.contrib.auth.models import User as Account
from django.db.models import Max

from crawlframe.base.expect import expectation
from crawlframe.base.program import command
from crawlframe.errors import ArgumentError
from crawlframe.pages.reparse import Reparse, first_admission
from crawlframe.request.request import MAX_TASK_PRIORITY, Admission
from crawlservice.accounts.roles import User
from crawlservice.models import KeptPage, Task
from crawlservice.pages.sources import chosen
from crawlservice.tasks import aliases, spider_switch
from crawlservice.tasks import overrides as task_settings
from crawlservice.tasks.labels import of_task
from crawlservice.tasks.stored_limits import LAYERED, stored_limits
from crawlservice.tasks.submit import Prepared, get_task, published, start_all

TEXT = 100  # characters of a callback, a reason or a field
# They were about pages that the task fetched.
LEFT_OUT = (
    "page_limit", "host_page_limit", "time_limit", "byte_limit", "host_byte_limit", *LAYERED,
)  # fmt: skip


def submit(
    task: int | None = None,
    spider: str = "",
    *,
    since: datetime | None = None,
    reason: str | None = None,
    callback: str = "",
    key: str | None = None,
    dry_run: bool = False,
    follow: bool = False,
    wait: bool = False,
    user: User | None = None,
    priority: int = 0,
) -> Task:
    """Creates and starts a task that parses the kept pages of a task, or of all tasks of a spider,
    by the code of the nodes. Its items replace the items of the tasks that fetched the pages.
    ``key``: None for the key that the spider declares, if it does. ``wait``: also pages that a
    running task has still to fetch. The others as in Reparse.

    Raises ArgumentError if none of the pages is kept or two options conflict, NotFound,
    SpiderDisabled, UnknownSpider, and FrontierError: RedisNotUpdated after it was recorded."""
    source = None if task is None else get_task(task)
    reparse = Reparse(
        task=source.pk if source is not None else 0,
        spider="" if source is not None else spider,
        since=_seconds(since),
        reason=reason,
        callback=callback,
        key=_declared_key(source) if key is None else key,
        dry_run=dry_run,
        follow=follow,
    )
    _check(reparse, source, wait)
    reparse = msgspec.structs.replace(reparse, sampled=_sampled(reparse))
    if not wait or source is None or source.state not in Task.ACTIVE:
        last = chosen(reparse).aggregate(last=Max("pk"))["last"]
        if last is None:
            raise ArgumentError(_nothing(reparse, source))
        reparse = msgspec.structs.replace(reparse, last=last)
    spider = source.spider if source is not None else spider
    spider_switch.check(spider)
    if not -MAX_TASK_PRIORITY <= priority <= MAX_TASK_PRIORITY:
        raise ArgumentError(
            f"priority {priority} must be between -{MAX_TASK_PRIORITY} and {MAX_TASK_PRIORITY}"
        )
    made = _task(spider, reparse, source, user)
    made.priority = priority
    labels = of_task(source.pk) if source is not None else {}

    def begin(new: Task) -> list[Admission]:
        if source is not None:  # whose requests are known by its rules
            aliases.give(new, source)
        return [first_admission(new.pk, new.priority)]

    start_all([Prepared(made, begin, labels)])
    return made


def _task(spider: str, reparse: Reparse, source: Task | None, user: User | None) -> Task:
    """The new task, with arguments and settings of its source, if it has one."""
    info = published(spider)
    overrides = source.overrides if source is not None else {}
    limits = stored_limits(task_settings.check(info, overrides, user))
    limits = {name: value for name, value in limits.items() if name not in LEFT_OUT}
    return Task(
        spider=spider,
        arguments=source.arguments if source is not None else {},
        settings=limits | ({"workers": 1} if info.workers else {}),
        overrides={n: value for n, value in overrides.items() if n not in LEFT_OUT},
        seeds=b"",
        user=user if isinstance(user, Account) else None,
        reparse=msgspec.to_builtins(reparse),
    )


def _seconds(since: datetime | None) -> float | None:
    if since is None:
        return None
    if not 1970 < since.year < 2200:  # others do not fit into every time zone
        raise ArgumentError(f"since: {since.isoformat()} is not between the years 1971 and 2199")
    return since.timestamp()


def _check(reparse: Reparse, source: Task | None, wait: bool) -> None:
    for name in ("callback", "reason", "key"):
        if len(getattr(reparse, name) or "") > TEXT:
            raise ArgumentError(f"{name}: it has more than {TEXT} characters")
    if source is None:
        for name, given in (("follow", reparse.follow), ("wait", wait)):
            if given:
                raise ArgumentError(
                    f"{name} needs a task, not a spider: what is new, and when all is fetched, "
                    "depends on the task"
                )
    elif source.reparse is not None:
        other = source.reparse.get("task") or f"spider {source.reparse.get('spider')}"
        raise ArgumentError(
            f"task {source.pk} parses kept pages itself, those of {other}; name that instead"
        )
    if reparse.follow and reparse.dry_run:
        raise ArgumentError("a dry run follows nothing; it counts what is new")


def _declared_key(source: Task | None) -> str:
    """The field that the spider of a task expects to be unique; "" if it declares none."""
    try:
        expect = expectation(source.expect) if source is not None else None
    except (ValueError, TypeError):  # a newer release has written it
        expect = None
    return next(iter(expect.unique), "") if expect is not None else ""


def _sampled(reparse: Reparse) -> int:
    rows = chosen(msgspec.structs.replace(reparse, dry_run=True)).filter(sample__isnull=False)
    return (rows.filter(sample=reparse.callback) if reparse.callback else rows).count()


def _nothing(reparse: Reparse, source: Task | None) -> str:
    whose = f"task {source.pk}" if source is not None else f"spider {reparse.spider}"
    if reparse.sampled:
        return (
            f"of the pages of {whose} that are done only a sample of {reparse.sampled} is kept, "
            "without secrets: a dry run shows what today's code makes of them, but their items are "
            'not replaced. To parse all pages again, fetch with keep = "all"; see '
            "docs/howto/kept-pages.md"
        )
    if (reparse.since, reparse.reason, reparse.callback) != (None, None, ""):
        return f"no kept page of {whose} is as asked for; leave out since, reason or callback"
    if source is None and not Task.objects.filter(spider=reparse.spider).exists():
        return f"there is no task of spider {reparse.spider!r}; see {command('task list')}"
    return (
        f'no page of {whose} is kept. Pages that failed are, and with keep = "all" the others; see '
        f"docs/howto/kept-pages.md"
    )


def pages_of(task: Task) -> int:
    """The number of kept pages of a task. Raises django.db.Error."""
    return KeptPage.objects.filter(task=task.pk).count()


def samples_of(task: Task) -> int:
    """The number of pages of a task that are kept as a sample only. Raises django.db.Error."""
    return KeptPage.objects.filter(task=task.pk, sample__isnull=False).count()


def fetches(task: Task) -> bool:
    """Whether a task fetches anything."""
    return task.reparse is None or bool(task.reparse.get("follow"))


def has_pages(task: Task) -> bool:
    """Whether pages of a task can be parsed again. Raises django.db.Error."""
    return task.reparse is None and KeptPage.objects.filter(task=task.pk).exists()


def reparse_of(task: Task) -> Reparse | None:
    """The reparse of a task; None for a task that fetches."""
    return None if task.reparse is None else msgspec.convert(task.reparse, Reparse)


def in_words(reparse: Reparse) -> str:
    """A phrase such as ``pages of task 12 with reason callback, dry run``."""
    words = [f"pages of task {reparse.task}" if reparse.task else f"pages of {reparse.spider}"]
    if reparse.callback:
        words.append(f"for {reparse.callback}")
    if reparse.reason is not None:
        words.append(f"with reason {reparse.reason}" if reparse.reason else "that are done")
    if reparse.since is not None:
        since = datetime.fromtimestamp(reparse.since, UTC)
        words.append(f"since {since:%Y-%m-%d %H:%M} UTC")
    if reparse.sampled:
        sample = f"a sample of {reparse.sampled} of the pages that are done"
        words.append(f"and {sample}" if reparse.dry_run else f"without {sample}")
    more = {"dry run": reparse.dry_run, "new links are followed": reparse.follow}
    more["until all is fetched"] = reparse.waits
    return ", ".join([" ".join(words), *(name for name, on in more.items() if on)])


def as_given(task: Task) -> dict[str, Any]:
    """The given values, for the journal."""
    return {name: value for name, value in (task.reparse or {}).items() if name != "last"}
