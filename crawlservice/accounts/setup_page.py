"""The page of the setup link, where the first administrator chooses a name and a password."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from unfold.forms import UserCreationForm
from unfold.widgets import BASE_INPUT_CLASSES

from crawlservice.accounts import setup_link
from crawlservice.accounts.journal import by, record


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
    if not setup_link.works(token):
        return _page(request, None, 404)
    form = FirstAdministrator(request.POST or None)
    if not form.is_valid():
        return _page(request, form, 200)
    user = setup_link.use(token, form.cleaned_data["username"], form.cleaned_data["password1"])
    if user is None:
        return _page(request, None, 404)
    record("setup", **{**by(request), "user": user})
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect("admin:index")


def _page(request: HttpRequest, form: FirstAdministrator | None, status: int) -> HttpResponse:
    context = {**admin.site.each_context(request), "title": "", "form": form}
    return render(request, "admin/crawlservice/setup.html", context, status=status)
