"""Error pages for unknown hosts and origins."""

from __future__ import annotations

import logging
from urllib.parse import urlsplit

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.csrf import csrf_failure
from django.views.defaults import bad_request

from crawlservice.api.parts.errors import answer
from crawlservice.api.tasks.limits import PLACES

log = logging.getLogger(__name__)

MAX_HOST = 253  # characters of a host name (RFC 1035)
MAX_NAMES = 20  # names written to the log: a client can send any number

_told: set[str] = set()


def refused(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Django's handler400: names the setting that lacks the host."""
    if not isinstance(exception, DisallowedHost):
        return bad_request(request, exception)
    host = request.META.get("HTTP_HOST", "")[:MAX_HOST]
    name = _without_port(host)
    _warn(
        f"a request came for the host {name!r}, which is not served; if it is yours, add it to "
        "CRAWLFRAME_ALLOWED_HOSTS and restart the web"
    )
    if request.path.startswith(PLACES):
        text = f"the host {name} is not served here; CRAWLFRAME_ALLOWED_HOSTS lacks it"
        return answer(400, "unknown_host", text)
    return render(request, "unknown_host.html", {"host": name}, status=400)


def _without_port(host: str) -> str:
    """Returns the text unchanged if it is not an address."""
    try:
        return urlsplit(f"//{host}").hostname or host
    except ValueError:
        return host


def form_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW: names the setting that lacks the origin."""
    origin = request.META.get("HTTP_ORIGIN", "")[:MAX_HOST]
    if not reason.startswith("Origin checking failed") or origin in ("", "null"):
        return csrf_failure(request, reason)
    own = f"{request.scheme}://{request.get_host()}"
    _warn(
        f"a form came from {origin!r}, but this server believes it is {own}; behind a proxy, add "
        "the first to CRAWLFRAME_CSRF_TRUSTED_ORIGINS and restart the web"
    )
    context = {"origin": origin, "own": own}
    return render(request, "unknown_origin.html", context, status=403)


def _warn(text: str) -> None:
    """Logs each text once."""
    if text not in _told and len(_told) < MAX_NAMES:
        _told.add(text)
        log.warning("%s", text)
