"""The journal: who did what, when, and from where."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from crawlservice.models import Action, Task, Token
from crawlservice.roles import User


def record(
    verb: str,
    *,
    user: User | None = None,
    token: Token | None = None,
    address: str | None = None,
    task: Task | int | None = None,
    **detail: Any,
) -> Action:
    """Writes down what was done, after it was. ``detail`` is what JSON can hold."""
    return Action.objects.create(
        verb=verb,
        user_id=user.pk if user is not None else None,
        token=token,
        address=address or None,
        task_id=task.pk if isinstance(task, Task) else task,
        detail=detail,
    )


def by(request: HttpRequest) -> dict[str, Any]:
    """For ``record``: the user and the address of a request."""
    return {"user": request.user, "address": request.META.get("REMOTE_ADDR")}
