"""Bot keys: the keys of Web Bot Auth are made, rotated and retired, and when each is published.

A new key is published before it signs, for as long as verifiers may keep the directory and longer,
and an old one for as long after it has signed last: so no signature is refused in between.

The directory of our keys, at a well-known address, for sites that verify our signatures
(draft-ietf-webbotauth-httpsig-protocol-01).
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta
from itertools import pairwise

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.http import parse_etags
from django.views.decorators.http import require_safe

from crawlframe.base.program import command
from crawlframe.errors import ConfigError, CrawlframeError
from crawlframe.identity import signing
from crawlframe.identity.signing import SigningKey, authority_of, check_origin, sign_directory
from crawlservice.connections import clock
from crawlservice.models import BotKey
from crawlservice.security.sealing import seal, unseal

MEDIA_TYPE = "application/http-message-signatures-directory+json"
CACHE_AGE = timedelta(hours=1)  # that verifiers may keep the directory
LEAD = timedelta(hours=24)  # that a new key is published before it signs
TAIL = timedelta(hours=24)  # that an old key is published after it has signed last


class KeyProblem(CrawlframeError):
    """The keys of Web Bot Auth cannot be changed like this."""


def check() -> None:
    """Raises ConfigError when requests are to be signed and there is no key."""
    if settings.CRAWLFRAME.bot_auth and current() is None:
        raise ConfigError(
            "CRAWLFRAME_BOT_AUTH is set, and there is no key to sign requests with; make one: "
            f"{command('credential create-key')}"
        )


def current() -> BotKey | None:
    """The key that signs now."""
    return _known().filter(starts_at__lte=clock.now()).last()


def published() -> list[BotKey]:
    """The keys in the directory: the current key, the next, and recent ones, in the order of their
    starts."""
    rows, now = [*_known()], clock.now()
    return [
        row
        for row, later in zip(rows, [*rows[1:], None], strict=False)
        if later is None or later.starts_at + TAIL > now
    ]


def create() -> BotKey:
    """Makes the first key, which signs at once. Raises KeyProblem if there is one."""
    with transaction.atomic():
        if row := _known().last():
            raise KeyProblem(
                f"there is the key {row.name}; rotate it: {command('credential rotate-key')}"
            )
        return _make(clock.now())


def rotate(lead: timedelta = LEAD) -> BotKey:
    """Makes the next key, which signs after ``lead``; with none, or less than CACHE_AGE, verifiers
    may not know it yet. Raises KeyProblem if there is no key, or if a next one waits already;
    without ``lead`` that one starts."""
    with transaction.atomic():
        now = clock.now()
        rows = [*_known().select_for_update()]
        if not rows:
            raise KeyProblem(f"there is no key; make one: {command('credential create-key')}")
        for row, later in pairwise(rows):
            if later.starts_at + TAIL <= now:  # it must not sign again when others are retired
                _retire(row, now)
        waiting = rows[-1]
        if waiting.starts_at <= now:
            return _make(now + lead)
        if lead:
            starts = f"{waiting.starts_at:%Y-%m-%d %H:%M}"
            raise KeyProblem(
                f"the key {waiting.name} is published and signs from {starts} UTC on; let it sign "
                f"at once with: {command('credential rotate-key --now')}"
            )
        waiting.starts_at = now
        waiting.save(update_fields=["starts_at"])
        return waiting


def retire(name: str) -> BotKey:
    """Takes a key out of the directory, at once and for ever. ``name``: or a prefix of it. Raises
    KeyProblem for the last key that can sign."""
    with transaction.atomic():
        found = [*_known().select_for_update().filter(name__startswith=name)] if name else []
        if len(found) != 1:
            number = "no" if not found else "more than one"
            raise KeyProblem(
                f"{number} published key starts with {name!r}; list them: "
                f"{command('credential keys')}"
            )
        row, now = found[0], clock.now()
        started = _known().filter(starts_at__lte=now).exclude(pk=row.pk)
        if row.starts_at <= now and not started.exists():
            raise KeyProblem(
                f"requests are signed with {row.name}, and there is no other key; first run: "
                f"{command('credential rotate-key --now')}"
            )
        _retire(row, now)
        return row


def state(row: BotKey, now: datetime, signing: BotKey | None, shown: list[BotKey]) -> str:
    """signs, next, published or retired."""
    if row.retired_at is not None or row not in shown:
        return "retired"
    if row == signing:
        return "signs"
    return "next" if row.starts_at > now else "published"


def signing_key(row: BotKey) -> SigningKey:
    """Raises SealError."""
    return signing.read(unseal(row.sealed_private), row.starts_at.timestamp())


def _known() -> QuerySet[BotKey]:
    return BotKey.objects.filter(retired_at=None).order_by("starts_at", "pk")


def _make(starts: datetime) -> BotKey:
    private = signing.make()
    key = signing.read(private, starts.timestamp())
    return BotKey.objects.create(
        name=key.name,
        public=signing.public_of(key.private),
        sealed_private=seal(private),
        starts_at=starts,
    )


def _retire(row: BotKey, now: datetime) -> None:
    row.retired_at = now
    row.save(update_fields=["retired_at"])


@require_safe
def directory(request: HttpRequest) -> HttpResponse:
    """All published keys as a JWK set, signed by each of them. It needs no login."""
    rows = published()
    if not rows:
        return HttpResponse("there are no keys\n", "text/plain", 404)
    keys = [
        {
            "kty": "OKP",
            "crv": "Ed25519",
            "kid": row.name,
            "x": row.public,
            "use": "sig",
            "nbf": int(row.created_at.timestamp()),
        }
        for row in rows
    ]
    body = json.dumps({"keys": keys}, separators=(",", ":")).encode()
    etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    if etag in parse_etags(request.headers.get("If-None-Match", "")):
        answer: HttpResponse = HttpResponseNotModified()
    else:
        # A proxy in front may change the Host header; the verifier asked for the public one.
        origin = check_origin(settings.CRAWLFRAME.bot_auth) or f"https://{request.get_host()}"
        authority = authority_of(f"{origin}/", [])
        proof = sign_directory(
            map(signing_key, rows), authority, body, int(clock.now().timestamp())
        )
        answer = HttpResponse(body, MEDIA_TYPE, headers=proof)
    answer["ETag"] = etag
    answer["Cache-Control"] = f"public, max-age={int(CACHE_AGE.total_seconds())}"
    answer["Access-Control-Allow-Origin"] = "*"
    return answer
