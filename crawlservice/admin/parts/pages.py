"""Pages of our own beside Django's lists and forms: their addresses and rights, their frame, their
forms, and the parts of them that browsers poll."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBase,
    HttpResponseRedirect,
    QueryDict,
)
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods

from crawlframe.errors import CrawlframeError, FieldError
from crawlservice.accounts.sessions import polled
from crawlservice.tasks.submit import RedisNotUpdated

SAFE, POST, FORM = ("GET", "HEAD"), ("POST",), ("GET", "HEAD", "POST")  # methods
STOP = 286  # the status that makes htmx stop polling
SPANS = {"hour": timedelta(hours=1), "day": timedelta(days=1)}
SPAN_NAMES = {"hour": gettext_lazy("Last hour"), "day": gettext_lazy("Last day")}

View = Callable[..., HttpResponseBase]
urls: list[URLPattern] = []  # of all pages of our own, before those of Django's lists


def page(
    place: str, name: str, right: str = "", methods: Sequence[str] = SAFE, **given: Any
) -> Callable[[View], View]:
    """Puts a view at an address below the admin's, for users who have the right. ``given``: further
    arguments of the view."""

    def put(view: View) -> View:
        @wraps(view)
        def shown(request: HttpRequest, **words: Any) -> HttpResponseBase:
            check(request, right)
            return view(request, **words)

        inner = admin.site.admin_view(require_http_methods([*methods])(shown))
        urls.append(path(place, inner, given, name))
        return view

    return put


def verbs(
    model: str, names: Iterable[str], right: str = "", methods: Sequence[str] = FORM
) -> Callable[[View], View]:
    """Puts a view at the address of each verb below that of a row."""

    def put(view: View) -> View:
        for verb in names:
            place, name = f"crawlservice/{model}/<int:pk>/{verb}/", f"crawlservice_{model}_{verb}"
            page(place, name, right, methods, verb=verb)(view)
        return view

    return put


def live(place: str, name: str, right: str, **given: Any) -> Callable[[View], View]:
    """The same for a fragment, without the redirect to the login page, which would appear inside
    this page. If the user was logged out or lacks the right, the whole page is reloaded."""

    def put(view: View) -> View:
        inner = admin.site.admin_view(require_http_methods([*SAFE])(view))

        @polled
        @wraps(view)
        def answer(request: HttpRequest, **words: Any) -> HttpResponseBase:
            if admin.site.has_permission(request) and may(request, right):
                found: HttpResponseBase = inner(request, **words)
                return found
            return HttpResponse(status=403, headers={"HX-Refresh": "true"})

        urls.append(path(place, answer, given, name))
        return view

    return put


def may(request: HttpRequest, right: str) -> bool:
    """Whether the user has a right of ours, such as "view_task"."""
    return request.user.has_perm(f"crawlservice.{right}")


def check(request: HttpRequest, right: str) -> None:
    """Raises PermissionDenied for a user without the right; "" is the right of everybody."""
    if right and not may(request, right):
        raise PermissionDenied


def whole_page(request: HttpRequest, template: str, title: Any, **context: Any) -> TemplateResponse:
    """The page of a ``template`` in the folder of ours, as wide as the window, unless
    ``is_fullwidth`` is empty."""
    own = {**admin.site.each_context(request), "title": title, "is_fullwidth": "1"}
    return TemplateResponse(request, f"admin/crawlservice/{template}.html", own | context)


def secret_page(
    request: HttpRequest, title: str, secret: str, back: str, **context: Any
) -> TemplateResponse:
    """The only page that shows a secret; browsers do not store it."""
    note = _("With it the receiver verifies that a message comes from this service.")
    own = {"secret": secret, "back": back, "note": note, "is_fullwidth": ""}
    page = whole_page(request, "secret", title, **own | context)
    page["Cache-Control"] = "no-store"
    return page


class NoForm(forms.Form):
    """A form without fields: only a confirmation."""


class Decision(NamedTuple):
    """A decision about a row that a button of its page offers. ``do`` gets the request, the row
    and the valid form. ``states``: of the row, in which it is offered."""

    verb: str
    text: str | Promise
    icon: str
    question: str | Promise
    do: Callable[[HttpRequest, Any, Any], object]
    form: type[forms.Form] = NoForm
    states: tuple[str, ...] = ()


def form_page(
    request: HttpRequest,
    row: Model,
    form: forms.Form,
    act: Callable[[], Model | None],
    **texts: Any,
) -> HttpResponse:
    """Calls ``act`` when a valid form is posted, and redirects to the page of the row that it
    returns, or of ``row``. A CrawlframeError is shown in the form, at its ``field`` if it has one;
    RedisNotUpdated is a warning. ``texts`` of the template: heading, text, note, button, icon."""
    if request.method == "POST" and form.is_valid():
        try:
            return to_row(act() or row)
        except RedisNotUpdated as error:
            messages.warning(request, str(error))
            return to_row(row)
        except CrawlframeError as error:
            field = error.field if isinstance(error, FieldError) else None
            form.add_error(field if field in form.fields else None, str(error))
    return whole_page(
        *(request, "form_page", str(row)),
        opts=row._meta,
        form=form,
        back=place_of(row),
        **texts,
        is_fullwidth="",
    )


def posted(request: HttpRequest) -> QueryDict | None:
    """The data for a form: of a POST, or none."""
    return request.POST if request.method == "POST" else None


def place_of(row: Model) -> str:
    """The address of the page of a row."""
    opts = row._meta
    return reverse(f"admin:{opts.app_label}_{opts.model_name}_change", args=[row.pk])


def to_row(row: Model) -> HttpResponseRedirect:
    return HttpResponseRedirect(place_of(row))


def to(name: str, *args: Any) -> HttpResponseRedirect:
    """Redirects to the page of the admin with this name."""
    return HttpResponseRedirect(reverse(f"admin:{name}", args=args))
