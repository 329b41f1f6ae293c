"""Bodies that cannot be read: 400 at every address, whoever sends them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

from django.contrib.auth.models import User
from django.test import Client

from crawlservice.accounts import tokens

PLAIN, PARTS = "application/x-www-form-urlencoded", "multipart/form-data"
PART = b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'
BODIES = [
    (PARTS, b"abc"),
    (f"{PARTS}; boundary=", b"abc"),
    (f"{PARTS}; boundary=\u00e9", b"abc"),
    (f"{PARTS}; boundary={'a' * 300}", b"abc"),
    (f"{PARTS}; boundary=x", PART * 1500),
    (PLAIN, b"&".join([b"a=1"] * 1500)),
    (PLAIN, b"a=" + b"x" * (2 << 20)),
]
PLACES = ("/admin/submit/", "/admin/login/", "/no-such-page", "/api/v1/tasks", "/healthz")


def test_what_cannot_be_read_is_the_senders_mistake(as_role: Callable[[str], Client]) -> None:
    session = as_role("superuser")
    _, token = tokens.make(User.objects.get(), "t", "operate", 1)
    for client, headers in (
        (session, {}), (Client(SERVER_NAME="localhost"), {}),
        (Client(SERVER_NAME="localhost"), {"Authorization": f"Bearer {token}"}),
    ):  # fmt: skip
        client.raise_request_exception = False
        for strict, place, (kind, body) in product((True, False), PLACES, BODIES):
            client.handler.enforce_csrf_checks = strict
            answer = client.generic("POST", place, body, content_type=kind, headers=headers)
            assert answer.status_code in (400, 413), (place, kind, strict, answer.status_code)
            if place.startswith("/api"):
                assert answer.json()["error"]["code"] == "bad_request"
