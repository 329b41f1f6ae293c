"""Tokens with which programs log in. A token is shown once, when it is made; its digest is
stored."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from crawlservice.connections import clock
from crawlservice.models import Token

if TYPE_CHECKING:
    from django.contrib.auth.models import User

PREFIX = "cf_"  # makes a token recognizable where it should not be, such as in a log
PREFIX_CHARS = 9  # first characters, stored to recognize the token by
DAYS, MAX_DAYS = 90, 3650  # until a token expires: by default, and at most
USED_EVERY = timedelta(minutes=1)  # precision of `used_at`
SCOPES = (Token.Scope.READ, Token.Scope.SUBMIT, Token.Scope.OPERATE)  # each allows those before it


def make(user: User, name: str, scope: str, days: int | None = None) -> tuple[Token, str]:
    """Makes a token of a user. Returns it and its secret, which cannot be retrieved later. ``days``
    until it expires; None: never."""
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token.objects.create(
        user=user,
        name=name,
        start=secret[:PREFIX_CHARS],
        digest=digest(secret),
        scopes=[str(scope)],
        expires_at=clock.now() + timedelta(days=days) if days is not None else None,
    )
    return token, secret


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def living() -> QuerySet[Token]:
    """Valid tokens: neither revoked nor expired, of active users."""
    unexpired = Q(expires_at=None) | Q(expires_at__gt=Now())
    return Token.objects.filter(unexpired, revoked_at=None, user__is_active=True)


def find(secret: str) -> Token | None:
    """The valid token with this secret, and its user; None if there is none."""
    if not secret.startswith(PREFIX):
        return None
    return living().select_related("user").filter(digest=digest(secret)).first()


def allows(token: Token, scope: str) -> bool:
    held = [SCOPES.index(Token.Scope(one)) for one in token.scopes if one in Token.Scope]
    return max(held, default=-1) >= SCOPES.index(Token.Scope(scope))


def used(token: Token) -> None:
    """Notes that the token was used now. Writes to the database at most every USED_EVERY."""
    now = timezone.now()
    if token.used_at is None or token.used_at < now - USED_EVERY:
        old = Q(used_at=None) | Q(used_at__lt=Now() - USED_EVERY)
        Token.objects.filter(old, pk=token.pk).update(used_at=Now())


def state(token: Token) -> str:
    """The token's state: valid, revoked, expired, or inactive (its user is inactive)."""
    if token.revoked_at:
        return "revoked"
    if token.expires_at and token.expires_at <= timezone.now():
        return "expired"
    return "valid" if token.user.is_active else "inactive"


def revoke(tokens: QuerySet[Token]) -> int:
    """Revokes tokens. Returns how many of them were not revoked before."""
    return tokens.filter(revoked_at=None).update(revoked_at=Now())
