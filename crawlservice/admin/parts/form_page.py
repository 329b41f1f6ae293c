"""A page with one form that changes a row, or asks for a confirmation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import AdminSite
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import URLPattern, path, reverse

from crawlframe.errors import CrawlframeError, FieldError
from crawlservice.admin.parts.whole_page import whole_page
from crawlservice.tasks.submit import RedisNotUpdated


def decision_urls(
    site: AdminSite, model: str, verbs: Iterable[str], decide: Callable[..., HttpResponse]
) -> list[URLPattern]:
    """The URLs at which something is decided about a row: ``decide`` gets the site, the request,
    the number of the row and the verb."""

    def view(verb: str) -> Any:
        return site.admin_view(lambda request, pk: decide(site, request, pk, verb))

    return [
        path(f"<int:pk>/{verb}/", view(verb), name=f"crawlservice_{model}_{verb}") for verb in verbs
    ]


def form_page(
    site: AdminSite,
    request: HttpRequest,
    row: Model,
    form: forms.Form,
    act: Callable[[], Model | None],
    **texts: Any,
) -> HttpResponse:
    """Calls ``act`` when a valid form is posted, and redirects to the page of the row that it
    returns, or of ``row``. A CrawlframeError is shown in the form, at its ``field`` if it has one;
    RedisNotUpdated is a warning. ``texts`` of the template: heading, text, note, button, icon."""
    opts = row._meta
    place = f"admin:{opts.app_label}_{opts.model_name}_change"
    if request.method == "POST" and form.is_valid():
        try:
            shown = act() or row
            return HttpResponseRedirect(reverse(place, args=[shown.pk]))
        except RedisNotUpdated as error:
            messages.warning(request, str(error))
            return HttpResponseRedirect(reverse(place, args=[row.pk]))
        except CrawlframeError as error:
            field = error.field if isinstance(error, FieldError) else None
            form.add_error(field if field in form.fields else None, str(error))
    return whole_page(
        *(site, request, "form_page", str(row)),
        opts=opts,
        form=form,
        back=reverse(place, args=[row.pk]),
        **texts,
        is_fullwidth="",
    )
