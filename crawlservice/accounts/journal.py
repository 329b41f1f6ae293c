"""The journal: actions with their user, time and address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.http import HttpRequest

from crawlframe.errors import FrontierError
from crawlservice.models import Action, Task, Token

User = AbstractUser | AnonymousUser


def record(
    verb: str,
    *,
    user: User | None = None,
    token: Token | None = None,
    address: str | None = None,
    task: Task | int | None = None,
    **detail: Any,
) -> Action:
    """Records an action after it was done. ``detail`` must be JSON-serializable."""
    known = user if user is not None and user.is_authenticated else None
    return Action.objects.create(
        verb=verb,
        user_id=known.pk if known else None,
        name=known.get_username() if known else "",
        token=token,
        address=address or None,
        task_id=task.pk if isinstance(task, Task) else task,
        detail=detail,
    )


def change(verb: str, how: Callable[[int], None], task_id: int, **who: Any) -> None:
    """Changes a task with ``how(task_id)`` and records it. Raises the errors of ``how``.

    A FrontierError is recorded too: by then the task was changed in the database."""
    try:
        how(task_id)
    except FrontierError as error:
        record(verb, task=task_id, **who, problem=str(error))
        raise
    record(verb, task=task_id, **who)


def by(request: HttpRequest) -> dict[str, Any]:
    """The user and the address of a request, as arguments for ``record``."""
    return {"user": request.user, "address": request.META.get("REMOTE_ADDR")}
