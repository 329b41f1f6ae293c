"""Errors of the API, which all have one form."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI, Router
from ninja.constants import NOT_SET
from ninja.errors import HttpError, Throttled, ValidationError
from pydantic import BaseModel
from redis import RedisError

from crawlframe.errors import (
    ArgumentError,
    ConfigError,
    CrawlframeError,
    FieldError,
    FrontierError,
    UnknownSpider,
)
from crawlservice.alerts.state import AlertResolved
from crawlservice.cases.decisions import CaseEnded
from crawlservice.connections.installation import OtherInstallation
from crawlservice.connections.lookup import NotFound
from crawlservice.exports.changes import FromFile
from crawlservice.hosts.orders import BadHost
from crawlservice.tasks.results.export import ExportError
from crawlservice.tasks.results.item_filter import BadUsageFilter
from crawlservice.tasks.spider_switch import SpiderDisabled
from crawlservice.tasks.submit import RedisNotUpdated, WrongState

log = logging.getLogger(__name__)
AWAY = "Redis does not answer; nothing was done, try again"
RETRY_AFTER = 5  # seconds after which to try again when a server is unreachable


class Problem(BaseModel):
    """An error, for programs and for people."""

    code: str
    message: str
    field: str | None = None


class Error(BaseModel):
    """The answer to a request that failed."""

    error: Problem


READING = (401, 403, 404, 422, 429, 503)
WRITING = (400, *READING, 409, 413, 415)


class Operations(Router):
    """Operations of a noun. Each may answer the errors of its kind, too."""

    def api_operation(
        self, methods: list[str], path: str, *, response: Any = NOT_SET, **more: Any
    ) -> Any:
        """``response``: the schema of status 200, or schemas by status; none for a file."""
        known = response if isinstance(response, dict) else {200: response}
        errors = {READING if methods == ["GET"] else WRITING: Error}
        told = errors if response is NOT_SET else known | errors
        return super().api_operation(methods, path, response=told, **more)


def sends(description: str, *types: str) -> dict[str, Any]:
    """What OpenAPI says of an operation that answers with a file or a stream of these media
    types."""
    content = {kind: {"schema": {"type": "string"}} for kind in types}
    return {"responses": {200: {"description": description, "content": content}}}


class ApiError(CrawlframeError):
    """The request cannot be done."""

    def __init__(self, status: int, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.field = status, code, field


def invalid(field: str, error: object) -> ApiError:
    return ApiError(422, "invalid", str(error), field)


def status_of(do: Callable[..., object], *args: Any, **more: Any) -> int:
    """Calls ``do``. Returns 200, or 202 if Redis is unreachable, and is updated later."""
    try:
        do(*args, **more)
    except RedisNotUpdated:
        return 202
    return 200


class NotAllowed(ApiError):
    """The caller may not do this."""

    def __init__(self, message: str) -> None:
        super().__init__(403, "forbidden", message)


def answer(status: int, code: str, message: str, field: str | None = None) -> JsonResponse:
    """An error, in the form that all errors have."""
    problem: dict[str, Any] = {"code": code, "message": message}
    if field is not None:
        problem["field"] = field
    response = JsonResponse({"error": problem}, status=status)
    if status == 401:
        response["WWW-Authenticate"] = "Bearer"
    if status == 503:
        response["Retry-After"] = str(RETRY_AFTER)
    return response


# Exception -> status, code, and a message where the exception's own is not for everybody. The first
# match counts.
KINDS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (ArgumentError, 422, "argument", ""),
    (UnknownSpider, 422, "unknown_spider", ""),
    (SpiderDisabled, 409, "spider_disabled", ""),
    (AlertResolved, 409, "wrong_state", ""),
    (CaseEnded, 409, "wrong_state", ""),
    (BadHost, 422, "invalid", ""),
    (WrongState, 409, "wrong_state", ""),
    (FromFile, 409, "from_file", ""),
    (ExportError, 422, "export", ""),
    (BadUsageFilter, 422, "invalid", ""),
    (RedisNotUpdated, 202, "not_told", ""),
    (OtherInstallation, 503, "other_installation", ""),
    # The messages of the next three may name servers.
    (FrontierError, 503, "redis_away", AWAY),
    (ConfigError, 503, "redis_away", AWAY),
    (RedisError, 503, "redis_away", AWAY),
    (DatabaseError, 503, "database_away", "the database failed; try again"),
    (CrawlframeError, 422, "refused", ""),
    (RequestDataTooBig, 413, "too_large", "the body is too large"),
    (RecursionError, 422, "invalid", "the body is nested too deeply"),
    (Http404, 404, "not_found", "there is nothing at this address"),
)
SLOWER = "too many requests; wait for Retry-After seconds"


def told(error: Exception) -> tuple[int, str, str]:
    """Status, code and message of an exception of KINDS. Raises any other."""
    for kind, status, code, message in KINDS:
        if isinstance(error, kind):
            return status, code, message or str(error)
    raise error


def _known(request: HttpRequest, error: Exception) -> HttpResponse:
    status, code, message = told(error)
    if status >= 500:
        log.warning("%s %s: %s", request.method, request.path, error)
    return answer(status, code, message)


def _invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """The first mistake, with its place: ``2.priority`` is in the third entry of a list."""
    first = error.errors[0]
    source, *place = first["loc"]
    # The name of our parameter and the choice between one and many are not part of the place.
    words = [str(word) for word in place if word not in ("body", "one", "many")]
    field = ".".join(words) or str(source)
    return answer(422, "invalid", f"{field}: {first['msg']}", field)


def _http(request: HttpRequest, error: HttpError) -> HttpResponse:
    codes = {400: "bad_json", 401: "unauthorized", 403: "forbidden"}
    messages = {
        400: "the body is not JSON",
        401: "send a token as Authorization: Bearer cf_…; this one is missing, wrong, expired or "
        "revoked",
    }
    message = messages.get(error.status_code, str(error))
    return answer(error.status_code, codes.get(error.status_code, "refused"), message)


def _unknown(request: HttpRequest, error: Exception) -> HttpResponse:
    name = getattr(request, "request_id", "")
    log.exception("%s %s failed (request %s)", request.method, request.path, name)
    return answer(500, "internal", "this is a defect of the service; see its log")


def handle(api: NinjaAPI) -> None:
    """Makes every exception of a request an error of the one form."""
    ours: Iterable[tuple[type[Exception], Callable[[HttpRequest, Any], HttpResponse]]] = (
        (Exception, _unknown),
        *((kind, _known) for kind, *_ in KINDS),
        (ApiError, lambda _, error: answer(error.status, error.code, str(error), error.field)),
        (FieldError, lambda _, error: answer(422, "invalid", str(error), error.field)),
        (NotFound, lambda _, error: answer(404, f"unknown_{error.noun}", str(error))),
        (ValidationError, _invalid),
        (HttpError, _http),
        (Throttled, lambda _, error: answer(429, "too_many_requests", SLOWER)),
    )
    for kind, handler in ours:
        api.add_exception_handler(kind, handler)
