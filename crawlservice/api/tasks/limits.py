"""Limits of the API: the number of requests of a caller, and the content of a request."""

from __future__ import annotations

import inspect
import re
import time
import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.exceptions import SuspiciousOperation
from django.core.handlers.exception import response_for_exception
from django.http import HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from ninja.throttling import BaseThrottle
from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.api.parts.errors import ApiError, answer
from crawlservice.connections.frontier import frontier

MINUTE = 60
GIVEN_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
PLACES = ("/api/", "/new_task")


class Rate(BaseThrottle):
    """Limits the requests of one token (or logged-in user) per minute of the clock, over all web
    processes. While Redis is unreachable no request is refused."""

    def allow_request(self, request: HttpRequest) -> bool:
        name = request.auth.name  # type: ignore[attr-defined]
        key = f"{settings.CRAWLFRAME.key_prefix}:rate:{name}:{int(time.time() // MINUTE)}"
        try:
            pipe = frontier().store.redis.pipeline(transaction=False)
            pipe.incr(key)
            pipe.expire(key, 2 * MINUTE)
            asked: int = pipe.execute()[0]
        except (RedisError, CrawlframeError):
            return True
        return asked <= settings.API_RATE

    def wait(self) -> float:
        """Seconds until the next minute starts."""
        return MINUTE - time.time() % MINUTE


def only_known(view: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses parameters that the view does not have, or that occur twice: a misspelt filter would
    be ignored."""
    known = set(inspect.signature(view).parameters)

    @wraps(view)
    def strict(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        for name, values in request.GET.lists():
            if name not in known:
                raise ApiError(422, "invalid", f"{name}: there is no such parameter", name)
            if len(values) > 1:
                raise ApiError(422, "invalid", f"{name} is given more than once", name)
        return view(request, *args, **kwargs)

    return strict


class ApiFrame:
    """Middleware: gives each request an id, which its answer and the log of a failure carry, and
    puts refusals of Django into the API's form."""

    MESSAGES = {
        400: ("bad_request", "the request cannot be read"),
        404: ("not_found", "there is nothing at this address"),
        405: ("method", "this method is not allowed at this address"),
        500: ("internal", "this is a defect of the service; see its log"),
    }

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        name = given if GIVEN_ID.fullmatch(given) else uuid.uuid4().hex
        request.request_id = name  # type: ignore[attr-defined]
        try:
            request.POST  # noqa: B018  later readers do not expect that it fails
            response = self.get_response(request)
        except (MultiPartParserError, SuspiciousOperation) as error:
            response = response_for_exception(request, error)
        if request.path.startswith(PLACES):
            response = self._formed(response)
        response["X-Request-Id"] = name
        return response

    def _formed(self, response: HttpResponse) -> HttpResponse:
        known = self.MESSAGES.get(response.status_code)
        if known is None or response.headers.get("Content-Type", "").startswith("application/json"):
            return response
        formed = answer(response.status_code, *known)
        if allowed := response.headers.get("Allow"):
            formed["Allow"] = allowed
        return formed
