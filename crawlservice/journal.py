"""The journal: who did what, when and from where."""

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
    """Writes down what was done; ``detail`` is what JSON can hold."""
    known = user.pk if user is not None and user.is_authenticated else None
    return Action.objects.create(
        verb=verb,
        user_id=known,
        token=token,
        address=address,
        task=task,
        detail=detail,
    )
