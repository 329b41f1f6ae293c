"""Journal: what somebody did."""

from __future__ import annotations

from typing import Any

from crawlservice.models import Action, Task, Token
from crawlservice.roles import User


def record(
    verb: str,
    *,
    user: User | None = None,
    token: Token | None = None,
    address: str | None = None,
    task: Task | None = None,
    **detail: Any,
) -> Action:
    """Writes down that somebody did something; nobody means a command. ``detail`` is JSON."""
    who = None if user is None else user.pk
    return Action.objects.create(
        user_id=who, token=token, address=address, verb=verb, task=task, detail=detail
    )
