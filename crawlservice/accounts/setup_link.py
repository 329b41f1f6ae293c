"""The setup link, which creates the first administrator. No account exists by default."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from crawlservice.connections import clock
from crawlservice.models import SetupLink

LIFE = timedelta(hours=24)


def is_needed() -> bool:
    """Whether there is no active superuser, so that nobody could create users."""
    return not User.objects.filter(is_superuser=True, is_active=True).exists()


def make() -> str:
    """Makes a link and returns its path, such as ``setup/…/``. Earlier links stop working."""
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        SetupLink.objects.all().delete()
        SetupLink.objects.create(digest=_digest(token), expires_at=clock.now() + LIFE)
    return f"setup/{token}/"


def works(token: str) -> bool:
    return is_needed() and _links(token).exists()


def use(token: str, name: str, password: str) -> User | None:
    """Creates the first administrator. Returns None if the link is invalid or was used just now."""
    with transaction.atomic():
        # Deleting the link uses it: of two requests, the database lets one delete it.
        used, _ = _links(token).delete()
        if not used or not is_needed():
            return None
        return User.objects.create_superuser(name, password=password)


def _links(token: str) -> QuerySet[SetupLink]:
    return SetupLink.objects.filter(digest=_digest(token), expires_at__gt=Now())


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
