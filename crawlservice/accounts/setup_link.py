"""The setup link: whoever has it makes the first administrator. No account exists by default."""

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
    """There is no active superuser: nobody could let anybody in."""
    return not User.objects.filter(is_superuser=True, is_active=True).exists()


def make() -> str:
    """The path of a new link, such as ``setup/…/``. Those of before do not work any more."""
    token = secrets.token_urlsafe(32)
    with transaction.atomic():
        SetupLink.objects.all().delete()
        SetupLink.objects.create(digest=_digest(token), expires_at=clock.now() + LIFE)
    return f"setup/{token}/"


def works(token: str) -> bool:
    return is_needed() and _links(token).exists()


def use(token: str, name: str, password: str) -> User | None:
    """Makes the first administrator; None when the link does not work, or somebody was faster."""
    with transaction.atomic():
        # Whoever removes the link has used it: of two, the database lets one.
        used, _ = _links(token).delete()
        if not used or not is_needed():
            return None
        return User.objects.create_superuser(name, password=password)


def _links(token: str) -> QuerySet[SetupLink]:
    return SetupLink.objects.filter(digest=_digest(token), expires_at__gt=Now())


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
