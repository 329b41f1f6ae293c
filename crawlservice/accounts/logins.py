"""Logins: each one is recorded in the journal, failed ones too; repeated failures lock out."""

from __future__ import annotations

from typing import Any

from axes.attempts import get_cool_off_threshold
from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from axes.signals import user_locked_out
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import AbstractUser
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.contrib.sessions.models import Session
from django.db.models import Sum
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from crawlservice.accounts.journal import record

LONGEST_NAME = 150  # characters kept of the name that was typed


class Guard(AxesDatabaseHandler):
    """Counts wrong passwords per user and address, and per address: a client that tries a few on
    each of many names is locked out too. A successful login resets the first count only."""

    def get_failures(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> int:
        failures: int = super().get_failures(request, credentials)
        if failures < settings.AXES_FAILURE_LIMIT and is_address_locked(request):
            return int(settings.AXES_FAILURE_LIMIT)
        return failures


def is_address_locked(request: HttpRequest) -> bool:
    """Whether too many wrong passwords came from this address recently, for any names."""
    address = request.axes_ip_address  # type: ignore[attr-defined]
    if address is None:
        return False
    rows = AccessAttempt.objects.filter(
        ip_address=address, attempt_time__gte=get_cool_off_threshold(request)
    )
    failures = rows.order_by().aggregate(n=Sum("failures_since_start", default=0))["n"]
    return bool(failures >= settings.LOGIN_ADDRESS_LIMIT)


@receiver(user_logged_in)
def _logged_in(request: HttpRequest | None, user: AbstractUser, **_: Any) -> None:
    record("login", user=user, address=_address(request))
    Session.objects.filter(expire_date__lt=timezone.now()).delete()


@receiver(user_logged_out)
def _logged_out(request: HttpRequest | None, user: AbstractUser | None, **_: Any) -> None:
    if user is not None:
        record("logout", user=user, address=_address(request))


@receiver(user_login_failed)
def _failed(credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    if not getattr(request, "axes_locked_out", False):  # else the lock is in the journal already
        record("login_failed", address=_address(request), username=_typed(credentials))


@receiver(user_locked_out)
def _locked_out(request: HttpRequest, username: str | None, **_: Any) -> None:
    # Further attempts during the lock are not counted, so they have no number of failures.
    if getattr(request, "axes_failures_since_start", None):
        told: dict[str, Any] = {"everybody": True} if is_address_locked(request) else {}
        name = _typed({"username": username})
        record("locked_out", address=_address(request), username=name, **told)


def _typed(credentials: dict[str, Any]) -> str:
    return str(credentials.get("username") or "").replace("\0", "")[:LONGEST_NAME]


def _address(request: HttpRequest | None) -> str | None:
    return request.META.get("REMOTE_ADDR") if request is not None else None


def locked_out(
    request: HttpRequest, original: HttpResponse | None, credentials: dict[str, Any] | None
) -> HttpResponse:
    """The page for a client that tried too many wrong passwords."""
    wait = settings.AXES_COOLOFF_TIME
    context = {
        **admin.site.each_context(request),
        "title": "",
        "tries": settings.AXES_FAILURE_LIMIT,
        "everybody": is_address_locked(request),
        "minutes": round(wait.total_seconds() / 60),
    }
    page = render(request, "admin/crawlservice/locked_out.html", context, status=429)
    page["Retry-After"] = str(round(wait.total_seconds()))
    return page
