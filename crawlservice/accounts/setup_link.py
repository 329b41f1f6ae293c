"""The setup link, which creates the first administrator. No account exists by default."""

from __future__ import annotations

import hashlib
import secrets
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from unfold.forms import UserCreationForm
from unfold.widgets import BASE_INPUT_CLASSES

from crawlservice.accounts.journal import by, record
from crawlservice.connections import clock
from crawlservice.models import SetupLink

LIFE = timedelta(hours=24)


def is_needed() -> bool:
    """Whether there is no active superuser, so that no user could create others."""
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


class FirstAdministrator(UserCreationForm):
    class Meta:
        model = User
        fields = ("username",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields.pop("usable_password", None)
        for field in self.fields.values():
            field.widget.attrs["class"] = " ".join(BASE_INPUT_CLASSES)


@never_cache
@sensitive_post_parameters()
def setup(request: HttpRequest, token: str) -> HttpResponse:
    """Opening the page changes nothing: link previews must not use the link up."""
    if not works(token):
        return _page(request, None, 404)
    form = FirstAdministrator(request.POST or None)
    if not form.is_valid():
        return _page(request, form, 200)
    user = use(token, form.cleaned_data["username"], form.cleaned_data["password1"])
    if user is None:
        return _page(request, None, 404)
    record("setup", **{**by(request), "user": user})
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("admin:index")


def _page(request: HttpRequest, form: FirstAdministrator | None, status: int) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": "", "form": form}
    return render(request, "admin/crawlservice/setup.html", context, status=status)
