"""Programs that use the API: a client that sends a token, and users of every role."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth.models import Group, User
from django.test import Client

from crawlservice.accounts import tokens

FAR = "203.0.113.9"  # an address with access to nothing


class Program:
    """Calls the API like a program. ``secret``: its token, if it has one."""

    def __init__(self, secret: str | None = None) -> None:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        self._client = Client(
            headers=headers, SERVER_NAME="localhost", REMOTE_ADDR=FAR, enforce_csrf_checks=True
        )

    def get(self, path: str, **query: Any) -> Any:
        return self._client.get(_full(path), query)

    def delete(self, path: str) -> Any:
        return self._client.delete(_full(path))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self._send("post", path, body, headers)

    def put(self, path: str, body: Any) -> Any:
        return self._send("put", path, body, {})

    def patch(self, path: str, body: Any) -> Any:
        return self._send("patch", path, body, {})

    def _send(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Any:
        text = body if isinstance(body, str | bytes) else json.dumps(body)
        kind = headers.pop("content-type", "application/json")
        send = getattr(self._client, method)
        return send(_full(path), text if body is not None else "", kind, headers=headers)


def _full(path: str) -> str:
    return path if path.startswith("/") else f"/api/v1/{path}"


def person(role: str, name: str = "", **fields: Any) -> User:
    """A user with this role; "root" is Django's superuser, "" a user without a role."""
    user = User.objects.create(
        username=name or role or "nobody", is_superuser=role == "root", **fields
    )
    if role and role != "root":
        user.groups.add(Group.objects.get(name=role))
    return user


def program(user: User, scope: str = "operate", days: int | None = None) -> Program:
    """A program with a fresh token of this user."""
    return Program(tokens.make(user, "test", scope, days)[1])
