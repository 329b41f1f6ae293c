"""Login sessions end after CRAWLFRAME_SESSION_IDLE without activity of their user, and
SESSION_COOKIE_AGE after the login in any case."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

from django.conf import settings
from django.contrib.auth import SESSION_KEY, logout
from django.contrib.auth.signals import user_logged_in
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse

BEGAN, ACTIVE = "began_at", "active_at"  # of a session, in seconds since 1970
UPDATE_SECONDS = 60  # between two updates of ACTIVE: not every request writes the session

View = TypeVar("View", bound=Callable[..., Any])


def polled(view: View) -> View:
    """Marks a view that pages poll by themselves: it does not count as activity."""
    view.is_polled = True  # type: ignore[attr-defined]
    return view


def sessionless(view: View) -> View:
    """Marks a view that needs no login. The session is not read for it, so the view works while the
    database is away, and its requests do not count as activity."""
    view.is_sessionless = True  # type: ignore[attr-defined]
    return view


class IdleSessions:
    """Middleware; it comes after the middleware of sessions and of authentication."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: Any, kwargs: Any
    ) -> None:
        if getattr(view, "is_sessionless", False) or SESSION_KEY not in request.session:
            return
        now = time.time()
        if _is_over(request.session, now):
            logout(request)
        elif ACTIVE not in request.session or not getattr(view, "is_polled", False):
            _note(request.session, int(now))


@receiver(user_logged_in)
def _logged_in(request: HttpRequest | None, **_: Any) -> None:
    session = getattr(request, "session", None)
    if session is not None:  # the user's earlier session continues under a new key
        session[BEGAN] = session[ACTIVE] = int(time.time())


def _is_over(session: Any, now: float) -> bool:
    idle = settings.SESSION_IDLE and now - session.get(ACTIVE, now) > settings.SESSION_IDLE
    return bool(idle or now - session.get(BEGAN, now) > settings.SESSION_COOKIE_AGE)


def _note(session: Any, now: int) -> None:
    if BEGAN not in session:
        session[BEGAN] = now
    if now - session.get(ACTIVE, 0) >= UPDATE_SECONDS:
        session[ACTIVE] = now
