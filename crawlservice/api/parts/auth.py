"""The caller and its rights: the token's scope and its user's permissions both count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja.errors import AuthenticationError
from ninja.security.http import HttpAuthBase
from ninja.utils import check_csrf

from crawlservice.accounts import journal, roles, tokens
from crawlservice.api.parts.errors import ApiError, NotAllowed, answer
from crawlservice.models import Task, Token

SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Caller:
    """A user, acting through a token or in a browser."""

    user: User
    token: Token | None
    address: str | None

    @property
    def name(self) -> str:
        """The key under which the caller's requests are counted."""
        return f"t{self.token.pk}" if self.token else f"u{self.user.pk}"

    @property
    def who(self) -> dict[str, Any]:
        """The caller, for the journal."""
        return {"user": self.user, "token": self.token, "address": self.address}

    def allows(self, scope: str) -> bool:
        return self.token is None or tokens.allows(self.token, scope)

    def check(self, scope: str, permission: str) -> None:
        """``permission``: as ``crawlservice.view_task``. Raises NotAllowed if the token lacks the
        scope, or the user the permission."""
        if not self.allows(scope):
            raise NotAllowed(f"this needs a token of scope {scope}")
        if not self.user.has_perm(permission):
            raise NotAllowed(f"user {self.user.get_username()} may not do this")

    def may_steer(self, task: Task) -> bool:
        """Whether the caller may control the task: a token that may submit, but not operate, only
        controls tasks of its user."""
        own = task.user_id == self.user.pk
        return (own or self.allows(Token.Scope.OPERATE)) and roles.may_steer(self.user, task)

    def record(self, verb: str, task: Task | None = None, **detail: Any) -> None:
        """Records the action in the journal."""
        journal.record(verb, task=task, **self.who, **detail)


class ApiRequest(HttpRequest):
    """A request that a Bearer has let in."""

    auth: Caller


def caller_of(request: HttpRequest) -> Caller | None:
    """None: neither a valid token nor a login. Except for reading, browsers need a CSRF token."""
    address = request.META.get("REMOTE_ADDR") or None
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme:
        token = tokens.find(secret.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            return None
        tokens.used(token)
        return Caller(token.user, token, address)
    if not request.user.is_authenticated:
        return None
    if request.method not in SAFE and check_csrf(request):
        raise NotAllowed("a browser must send its CSRF token to change something")
    return Caller(request.user, None, address)


class Bearer(HttpAuthBase):
    """``Bearer("submit", "submit_task")``: a token needs this scope, its user this permission."""

    openapi_scheme = "bearer"
    csrf = True  # the pages of the docs send it

    def __init__(self, scope: str, permission: str) -> None:
        super().__init__()
        self.scope, self.permission = scope, f"crawlservice.{permission}"

    def __call__(self, request: HttpRequest) -> Caller | None:
        caller = caller_of(request)
        if caller is None:
            raise AuthenticationError
        caller.check(self.scope, self.permission)
        if request.method not in SAFE and _has_other_body(request):
            text = "send the body as Content-Type: application/json"
            raise ApiError(415, "content_type", text)
        return caller


def rights_on(model: str) -> tuple[Bearer, Bearer, Bearer, Bearer]:
    """For operations that view, add, change and delete rows of a model."""
    edit = (Bearer("operate", f"{verb}_{model}") for verb in ("add", "change", "delete"))
    return Bearer("read", f"view_{model}"), *edit  # type: ignore[return-value]


def _has_other_body(request: HttpRequest) -> bool:
    """Whether the body is not declared as JSON, as in a form that another site makes a browser
    post."""
    length = request.META.get("CONTENT_LENGTH") or "0"
    return length != "0" and request.content_type != "application/json"


def known_only(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """A page for callers with a token or a login; browsers are sent to the login, programs
    refused."""

    @wraps(view, assigned=(), updated=())
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if caller_of(request) is not None:
            return view(request, *args, **kwargs)
        if "text/html" in request.headers.get("Accept", ""):
            return redirect_to_login(request.get_full_path(), reverse("admin:login"))
        return answer(401, "unauthorized", "log in, or send a token")

    return guarded
