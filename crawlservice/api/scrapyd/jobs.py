"""ScrapydJob: a task for clients of scrapyd. Its id is the label ``jobid``, or the number."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Any
from urllib.parse import quote

from django.contrib.auth.models import User
from django.utils import timezone

from crawlframe.base.scrapy_names import SETTINGS
from crawlframe.errors import ArgumentError
from crawlframe.spider.spider import SpiderInfo
from crawlservice.connections import clock
from crawlservice.connections.lookup import NotFound
from crawlservice.models import Task
from crawlservice.tasks import bulk_submit, labels, submit
from crawlservice.tasks.bulk_submit import WantedTask
from crawlservice.tasks.label_rows import labelled
from crawlservice.tasks.overrides import parse_settings

LABEL = "jobid"
RECIPES = "recipes"  # the project of spiders without code
MAX_ENDED = 100  # ended jobs that are listed: scrapyd's finished_to_keep
MAX_OPEN = 1_000
PENDING, RUNNING, FINISHED = STATES = ("pending", "running", "finished")


@dataclass(frozen=True)
class ScrapydJob:
    """``project``: the package of the spider."""

    task: Task
    id: str
    project: str

    @property
    def state(self) -> str:
        if self.task.state not in Task.ACTIVE:
            return FINISHED
        return PENDING if self.task.state == Task.State.PAUSED else RUNNING

    @property
    def started(self) -> datetime:
        return _local(self.task.created_at)

    @property
    def ended(self) -> datetime | None:
        return _local(self.task.finished_at) if self.task.finished_at else None

    @property
    def runtime(self) -> str:
        """As ``0:01:30``."""
        seconds = ((self.ended or _local(clock.now())) - self.started).total_seconds()
        return str(timedelta(seconds=max(0, int(seconds))))

    @property
    def log_url(self) -> str:
        return f"/logs/{self._path}.log"

    @property
    def items_url(self) -> str:
        return f"/items/{self._path}.jl"

    @property
    def _path(self) -> str:
        return "/".join(quote(part, safe="") for part in (self.project, self.task.spider, self.id))


def projects() -> dict[str, list[str]]:
    """The names of the spiders by project. Raises FrontierError."""
    found: dict[str, list[str]] = {}
    for name, info in sorted(submit.spiders().items()):
        found.setdefault(project_of(info), []).append(name)
    return found


def project_of(info: SpiderInfo) -> str:
    return info.module.partition(".")[0] or RECIPES


def spiders_of(project: str) -> list[str]:
    """Raises ArgumentError if there is no such project, and FrontierError."""
    known = projects()
    if project not in known:
        raise ArgumentError(
            f"there is no project {project!r}; a project is a package of spiders: "
            f"{', '.join(known) or 'no node has published any'}"
        )
    return known[project]


def schedule(
    given: Mapping[str, str],
    settings: Iterable[str],
    user: User,
    recorded: Callable[[Task], None],
) -> str:
    """Submits a task. ``given``: project, spider, perhaps jobid and priority, and the spider's
    arguments. ``settings``: as ``DOWNLOAD_DELAY=2``. Returns the id of the job. Raises
    ArgumentError, KeyReused, SpiderDisabled and FrontierError."""
    arguments = dict(given)
    project, spider = arguments.pop("project"), arguments.pop("spider")
    if spider not in (known := spiders_of(project)):
        raise ArgumentError(f"project {project!r} has no spider {spider!r}; it has {known}")
    job = arguments.pop("jobid", None) or uuid.uuid1().hex
    wanted = WantedTask(
        spider,
        arguments,
        _priority(arguments.pop("priority", "0")),
        parse_settings(map(_native, settings)),
        {LABEL: job},
        from_text=True,
    )
    # With a space, which no key of a client of ours has.
    bulk_submit.submit_once(f"scrapyd {job}", [wanted], user, recorded)
    return job


def _priority(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise ArgumentError(f"priority {text!r} is no number; give one, such as 0") from None


def _native(pair: str) -> str:
    """``delay=2`` for ``DOWNLOAD_DELAY=2``."""
    name, equals, value = pair.partition("=")
    if name in SETTINGS and value in ("True", "False"):
        value = value.lower()
    return f"{SETTINGS.get(name, name)}{equals}{value}"


def find(job: str) -> ScrapydJob:
    """The latest with this id. Raises NotFound and FrontierError."""
    rows = Task.objects.defer("seeds").filter(watch=None)
    task = labelled(rows, f"{LABEL}={job}").order_by("-pk").first() if job.strip() else None
    if task is None and job.isascii() and job.isdigit() and len(job) < 19:
        task = rows.filter(pk=int(job)).first()
    if task is None:
        raise NotFound("job", f"there is no job {job}")
    return next(_jobs([task]))


def listed(project: str | None = None) -> dict[str, list[ScrapydJob]]:
    """The jobs of a project, or of all, by state, the oldest first: at most MAX_OPEN that have not
    ended, and the MAX_ENDED that began last of the others. Raises ArgumentError and
    FrontierError."""
    rows = Task.objects.defer("seeds", "arguments").filter(watch=None).order_by("-pk")
    if project is not None:
        rows = rows.filter(spider__in=spiders_of(project))
    tasks = chain(
        rows.filter(state__in=Task.ACTIVE)[:MAX_OPEN],
        rows.exclude(state__in=Task.ACTIVE)[:MAX_ENDED],
    )
    found: dict[str, list[ScrapydJob]] = {state: [] for state in STATES}
    for job in _jobs(sorted(tasks, key=lambda task: task.pk)):
        found[job.state].append(job)
    return found


def _jobs(tasks: list[Task]) -> Iterator[ScrapydJob]:
    known = submit.published_spiders()
    tagged = labels.of_tasks(task.pk for task in tasks)
    for task in tasks:
        info = known.get(task.spider)
        name = tagged.get(task.pk, {}).get(LABEL) or str(task.pk)
        yield ScrapydJob(task, name, project_of(info) if info else RECIPES)


def described(job: ScrapydJob) -> dict[str, Any]:
    """A job in a list of scrapyd."""
    found: dict[str, Any] = {"id": job.id, "project": job.project, "spider": job.task.spider}
    if job.state == PENDING:
        return found
    found |= {"start_time": str(job.started), "log_url": job.log_url, "items_url": job.items_url}
    if job.state == RUNNING:
        return found | {"pid": None}  # no process of its own
    return found | {"end_time": str(job.ended or job.started)}


def _local(at: datetime) -> datetime:
    return timezone.localtime(at).replace(tzinfo=None)
