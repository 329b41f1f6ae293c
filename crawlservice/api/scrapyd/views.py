"""The operations of scrapyd at its addresses. A caller logs in by HTTP Basic, with the user's name
and a token of that user. As there, a refusal has status 200 and says ``error``."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseNotAllowed,
    JsonResponse,
    StreamingHttpResponse,
)
from django.shortcuts import render
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from redis import RedisError

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlservice.accounts import tokens
from crawlservice.api.parts.auth import Caller
from crawlservice.api.parts.errors import ApiError, NotAllowed, status_of, told
from crawlservice.api.scrapyd import jobs
from crawlservice.api.tasks.limits import Rate
from crawlservice.api.tasks.tasks import recorder
from crawlservice.connections.lookup import NotFound
from crawlservice.models import LogLine, Task
from crawlservice.monitoring import nodes
from crawlservice.tasks import submit
from crawlservice.tasks.progress.log import as_text
from crawlservice.tasks.results import export
from crawlservice.tasks.results.task_rows import of_task

OPERATION = dict[str, Any]
SIGNALS = ("TERM", "INT")  # those on which a spider of Scrapy finishes what it has begun
PULL = (
    "spiders are not uploaded here: push the commit, and the nodes go live with it; see "
    "docs/guide/nodes.md"
)


def operation(
    method: str, scope: str, permission: str
) -> Callable[[Callable[..., Any]], Callable[..., HttpResponseBase]]:
    """Makes a view of a function that returns the fields of the answer, or a response. A token
    needs this scope, its user this permission."""

    def decorate(do: Callable[..., Any]) -> Callable[..., HttpResponseBase]:
        @csrf_exempt  # a caller that sends credentials itself
        @wraps(do)
        def view(request: HttpRequest, *args: Any, **parts: Any) -> HttpResponseBase:
            if request.method not in (method, "HEAD" if method == "GET" else method):
                return HttpResponseNotAllowed([method])
            caller = _caller(request)
            if caller is None:
                refused = _error("log in with the name of a user and a token of this user", 401)
                refused["WWW-Authenticate"] = 'Basic realm="Crawlframe", charset="UTF-8"'
                return refused
            request.auth = caller  # type: ignore[attr-defined]
            if not Rate().allow_request(request):
                return _error("too many requests; wait a minute", 429)
            try:
                caller.check(scope, f"crawlservice.{permission}")
                _refuse_forms(request)
                found = do(request, *args, **parts)
            except (CrawlframeError, RedisError, DatabaseError) as error:
                return _error(told(error)[2], getattr(error, "status", 200))
            return found if isinstance(found, HttpResponseBase) else _answer("ok", found)

        return view

    return decorate


def _caller(request: HttpRequest) -> Caller | None:
    scheme, _, encoded = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        pair = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    name, _, secret = pair.partition(":")
    token = tokens.find(secret)
    if token is None or token.user.get_username() != name:
        return None
    tokens.used(token)
    return Caller(token.user, token, request.META.get("REMOTE_ADDR") or None)


def _refuse_forms(request: HttpRequest) -> None:
    # A browser that remembers the credentials sends them with the forms of other sites, too.
    if request.method == "POST" and "Origin" in request.headers:
        raise NotAllowed("this is for programs, not for the forms of a browser")


def _answer(status: str, fields: OPERATION, code: int = 200) -> JsonResponse:
    return JsonResponse(
        {"node_name": settings.CRAWLFRAME.node, "status": status} | fields, status=code
    )


def _error(message: str, code: int = 200) -> JsonResponse:
    return _answer("error", {"message": message}, code)


def _given(request: HttpRequest, *known: str) -> dict[str, str]:
    """The parameters, each once; ``setting`` apart. With ``known``: those that there are, of which
    an operation needs all whose name has no ``?``. Raises ArgumentError."""
    query = request.POST if request.method == "POST" else request.GET
    found: dict[str, str] = {}
    for name, values in query.lists():
        if name == "setting" and not known:
            continue
        if len(values) > 1:
            raise ArgumentError(f"{name!r} is given more than once")
        if known and name not in {one.rstrip("?") for one in known}:
            raise ArgumentError(f"there is no parameter {name!r}")
        found[name] = values[0]
    for name in known or ("project", "spider"):
        if not name.endswith("?") and not found.get(name):
            raise ArgumentError(f"{name!r} parameter is required")
    return found


def _check_version(given: dict[str, str]) -> None:
    """Raises ArgumentError for a version that does not run."""
    version = given.pop("_version", "")
    if version and version not in (running := _versions()):
        raise ArgumentError(f"version {version!r} does not run on any node; there are {running}")


def _versions() -> list[str]:
    """The most frequent last. Without "+": ScrapydWeb does not quote it in a URL."""
    return [version.replace("+", "-") for version in nodes.versions(nodes.read())][::-1]


@operation("GET", "read", "view_task")
def daemonstatus(request: HttpRequest) -> OPERATION:
    _given(request, "project?")
    return {state: len(found) for state, found in jobs.listed().items()}


@operation("GET", "read", "view_task")
def listprojects(request: HttpRequest) -> OPERATION:
    return {"projects": [*jobs.projects()]}


@operation("GET", "read", "view_task")
def listversions(request: HttpRequest) -> OPERATION:
    jobs.spiders_of(_given(request, "project")["project"])
    return {"versions": _versions()}


@operation("GET", "read", "view_task")
def listspiders(request: HttpRequest) -> OPERATION:
    given = _given(request, "project", "_version?")
    _check_version(given)
    return {"spiders": jobs.spiders_of(given["project"])}


@operation("GET", "read", "view_task")
def listjobs(request: HttpRequest) -> OPERATION:
    found = jobs.listed(_given(request, "project?").get("project"))
    return {state: [jobs.described(job) for job in some] for state, some in found.items()}


@operation("GET", "read", "view_task")
def status(request: HttpRequest) -> OPERATION:
    try:
        return {"currstate": jobs.find(_given(request, "job", "project?")["job"]).state}
    except NotFound:
        return {"currstate": None}


@operation("POST", "submit", "submit_task")
def schedule(request: HttpRequest) -> OPERATION:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    given = _given(request)
    _check_version(given)

    chosen = request.POST.getlist("setting")
    return {"jobid": jobs.schedule(given, chosen, caller.user, recorder(caller))}


@operation("POST", "submit", "submit_task")
def cancel(request: HttpRequest) -> OPERATION:
    caller: Caller = request.auth  # type: ignore[attr-defined]
    given = _given(request, "project", "job", "signal?")
    if (signal := given.get("signal", "TERM").removeprefix("SIG")) not in SIGNALS:
        raise ArgumentError(
            f"signal {signal!r}: a job has no process of its own that could be killed; leave it out"
        )
    try:
        job = jobs.find(given["job"])
    except NotFound:
        return {"prevstate": None}
    if not caller.may_steer(job.task):
        raise NotAllowed(f"you may not cancel job {job.id}; this needs a token of scope operate")
    if job.state == jobs.FINISHED:
        return {"prevstate": None}
    if job.task.state != Task.State.CANCELLING:
        status_of(submit.cancel, job.task.pk)
        caller.record("cancel", job.task)
    return {"prevstate": job.state}


@operation("POST", "read", "view_task")
def refused(request: HttpRequest) -> OPERATION:
    raise ArgumentError(PULL)


@operation("GET", "read", "view_task")
def job_page(request: HttpRequest) -> HttpResponse:
    return render(request, "scrapyd/jobs.html", {"states": jobs.listed()})


@operation("GET", "read", "view_task")
def log(request: HttpRequest, project: str, spider: str, job: str) -> HttpResponseBase:
    task = _of(project, spider, job)
    rows = of_task(LogLine.objects.all(), task.pk).iterator(chunk_size=1000)
    lines = (f"{as_text(line)}\n".encode() for line in rows)
    return StreamingHttpResponse(lines, content_type="text/plain; charset=utf-8")


@operation("GET", "read", "view_item")
def items(request: HttpRequest, project: str, spider: str, job: str) -> HttpResponseBase:
    task = _of(project, spider, job)
    request.auth.record("export", task, format="jsonl")  # type: ignore[attr-defined]
    return StreamingHttpResponse(export.stream(task, ".jsonl"), content_type="application/jsonl")


def _of(project: str, spider: str, job: str) -> Task:
    """The task of a job. Raises NotFound and ApiError."""
    found = jobs.find(job)
    if (found.project, found.task.spider) != (project, spider):
        raise ApiError(404, "unknown_job", f"there is no job {job} of spider {spider} in {project}")
    return found.task


def _urls() -> Iterator[Any]:
    verbs = (
        daemonstatus, listprojects, listversions, listspiders, listjobs, status, schedule, cancel
    )  # fmt: skip
    for view in verbs:
        yield path(f"{view.__name__}.json", view)
    for name in ("addversion", "delversion", "delproject"):
        yield path(f"{name}.json", refused)
    yield path("jobs", job_page)
    yield path("logs/<str:project>/<str:spider>/<str:job>.log", log)
    yield path("items/<str:project>/<str:spider>/<str:job>.jl", items)


urls = [*_urls()]
