"""Exports in the admin: the progress, the problems and the definition of each."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.exports.form import CONDITIONS, PARTS, ExportForm
from crawlservice.admin.parts.fields import text
from crawlservice.admin.parts.lookups import DeclaredLookups, Journaled, column, row_action
from crawlservice.admin.parts.pages import (
    FORM,
    page,
    posted,
    secret_page,
    to,
    whole_page,
)
from crawlservice.display import badge, label_chips, moment, page_link, readable, task_link
from crawlservice.exports import changes
from crawlservice.exports.addresses import BadExport
from crawlservice.exports.source import left, state_of, with_newest
from crawlservice.exports.target import place_of
from crawlservice.models import Export, ExportFile

STATES = {
    "running": (_("running"), "good"),
    "failing": (_("failing"), "bad"),
    "paused": (_("paused"), "muted"),
    "removed": (_("removed from the file"), "muted"),
}

DEFINED = ("name", "what", "begin", "spider", "task", "labels", "usage", "chosen", "kind")
PROGRESS = (
    "state", "left_rows", "shown_rows", "position", "run", "last_batch", "sent_at", "problem",
    "failed_since", "retried_at", "origin", "control",
)  # fmt: skip
SHOWN = ("state", "scope", "shown_target", *PROGRESS[1:])


class ControlForm(forms.Form):
    begin = text(
        _("Start again from"),
        _("beginning, now, a date such as 2026-11-01T06:00Z, or a row number"),
    )


def _change(request: HttpRequest, export: Export, verb: str, **given: Any) -> None:
    getattr(changes, verb)(export, **given)
    record(f"{verb} export", **by(request), export=export.name, **given)


@admin.register(Export)
class ExportAdmin(Journaled, DeclaredLookups):
    journal_noun = "export"
    form = ExportForm
    conditional_fields = CONDITIONS
    list_display = (
        "name", "state", "reached", "shown_problem", "scope", "place", "shown_rows",
        "short_batch", "sent_at", "control",
    )  # fmt: skip
    list_fullwidth = True
    list_per_page = 50
    search_fields = ("name",)
    actions = ("pause", "resume")
    actions_submit_line = ("save_and_try",)
    readonly_fields = (*SHOWN,)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Export]:
        return with_newest(super().get_queryset(request))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return [(None, {"fields": SHOWN})]
        defined = [name for name in DEFINED if obj is None or name != "begin"]
        found: list[Any] = [(None, {"fields": [*defined, *(part.name for part in PARTS)]})]
        if obj is not None:
            found.append((_("Progress"), {"fields": PROGRESS}))
        return found

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [name for _title, one in self.get_fieldsets(request, obj) for name in one["fields"]]

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        """No field is one of the model: the form saves by itself."""
        if obj is not None and not self.has_change_permission(request, obj):
            more = {**kwargs, "form": forms.ModelForm, "fields": []}
            return super().get_form(request, obj, change, **more)
        return super().get_form(request, obj, change, **{**kwargs, "fields": []})

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Exports that a file defines are changed in the file."""
        may: bool = super().has_change_permission(request, obj)
        return may and not (obj is not None and obj.from_file and obj.listed)

    def has_try_permission(self, request: HttpRequest, pk: Any = None) -> bool:
        return self.has_change_permission(request, pk and self.get_object(request, str(pk)))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        may: bool = super().has_delete_permission(request, obj)
        return may and not (obj is not None and obj.from_file and obj.listed)

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        if request.method == "GET" and self.has_view_permission(request):
            file = ExportFile.objects.first()
            for problem in file.problems if file else ():
                messages.warning(request, f"{file.node}: {problem}" if file else problem)
        return {}

    def save_model(self, request: HttpRequest, obj: Export, form: Any, change: bool) -> None:
        self._save(request, obj, form, change)
        for one in self.get_actions_submit_line(request, obj.pk):
            if one.action_name in request.POST:
                one.method(request, obj)

    def _save(self, request: HttpRequest, obj: Export, form: Any, change: bool) -> None:
        if change:
            try:
                if changes.edit(obj, form.definition):
                    fields = form.changed_data
                    record("change export", **by(request), export=obj.name, fields=fields)
            except CrawlframeError as error:  # the file has named it meanwhile
                messages.error(request, str(error))
            return
        begin = form.cleaned_data["begin"]
        row, secret = changes.add(form.definition, begin, user_id=request.user.pk)
        obj.pk, obj.name, obj.sealed, obj.target = row.pk, row.name, row.sealed, row.target
        obj._state.adding = False
        request.made_secret = secret  # type: ignore[attr-defined]
        record("add export", **by(request), export=obj.name, begin=begin)

    def response_add(
        self, request: HttpRequest, obj: Export, post_url_continue: str | None = None
    ) -> HttpResponse:
        if not (secret := getattr(request, "made_secret", "")):
            answer: HttpResponse = super().response_add(request, obj, post_url_continue)
            return answer
        title = _("Secret of the export {name}").format(name=obj.name)
        back = reverse("admin:crawlservice_export_change", args=[obj.pk])
        return secret_page(request, title, secret, back)

    def response_post_save_add(self, request: HttpRequest, obj: Export) -> HttpResponseRedirect:
        """Redirects to the page on which its target can be tried."""
        return HttpResponseRedirect(reverse("admin:crawlservice_export_control", args=[obj.pk]))

    state = column(lambda export: badge(*STATES[state_of(export)]), _("state"))

    @admin.display(description=_("exports"))
    def scope(self, export: Export) -> SafeString:
        found: list[Any] = [export.get_what_display()]
        found += [export.spider] * bool(export.spider)
        found += [task_link(export.task)] * (export.task is not None)
        found += [label_chips(export.labels, "")] * bool(export.labels)
        found += [export.usage] * bool(export.usage)
        return format_html(" ".join(["{}"] * len(found)), *found)

    place = column(place_of, _("target"), "target")
    shown_target = column(readable, _("target"), "target")

    @admin.display(description=_("position"), ordering="position")
    def reached(self, export: Export) -> str:
        """Counting the rows of each would take too long in a list."""
        return f"{export.position:,} / {export.newest:,}"  # type: ignore[attr-defined]

    left_rows = column(lambda export: str(left(export)), _("left"))
    shown_rows = column(lambda export: f"{export.rows:,}", _("exported"))

    @admin.display(description=_("last batch"))
    def short_batch(self, export: Export) -> str:
        """The number of the batch, without its directory."""
        return export.last_batch.rpartition("/")[2] or "-"

    sent_at = column(moment, _("last sent"), "last_at")
    shown_problem = column(lambda export: Truncator(export.problem).chars(90) or "-", _("problem"))
    failed_since = column(moment, _("failing since"), "problem_since")
    retried_at = column(moment, _("next attempt"), "next_at")

    @admin.display(description=_("defined"))
    def origin(self, export: Export) -> str:
        return gettext("in exports.toml") if export.from_file else gettext("here")

    control = column(lambda export: page_link(_("control"), "export_control", export.pk), "")

    pause = row_action(
        *(_("Pause selected exports"), "change"),
        lambda request, export: _change(request, export, "pause"),
        _("exports changed: {n}"),
    )
    resume = row_action(
        *(_("Resume selected exports"), "change"),
        lambda request, export: _change(request, export, "resume"),
        _("exports changed: {n}"),
    )

    @action(description=_("Save and try the target"), permissions=["try"])
    def save_and_try(self, request: HttpRequest, export: Export) -> None:
        transaction.on_commit(lambda: _try(request, export))  # it may take long


def _try(request: HttpRequest, export: Export) -> None:
    # Imported here: nothing else in the web needs it.
    from crawlservice.exports.exporter import tried

    problem = tried(Export.objects.get(pk=export.pk), settings.CRAWLFRAME)
    record("test export", **by(request), export=export.name, problem=problem)
    if problem:
        messages.error(request, f"{export}: {problem}")
    else:
        text = _("{export}: the target can be reached and written from this machine")
        messages.success(request, text.format(export=export))


@page(
    "crawlservice/export/<int:pk>/control/",
    *("crawlservice_export_control", "change_export", FORM),
)
def control_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Pauses, resumes, or starts again from a point."""
    export = get_object_or_404(Export, pk=pk)
    form = ControlForm(posted(request))
    if form.is_valid():
        try:
            begin = form.cleaned_data["begin"]
            if "_try" in request.POST:
                _try(request, export)
                return HttpResponseRedirect(request.path)
            if "_restart" in request.POST:
                if not begin:
                    raise BadExport("begin", gettext("say from where, such as beginning"))
                _change(request, export, "restart", begin=begin)
            else:
                _change(request, export, "pause" if "_pause" in request.POST else "resume")
            messages.success(request, _("{export} was changed").format(export=export.name))
            return to("crawlservice_export_changelist")
        except BadExport as error:
            form.add_error("begin", str(error).partition(": ")[2])
        except CrawlframeError as error:
            messages.error(request, str(error))
    return whole_page(
        *(request, "export/control", export.name),
        heading=export.name,
        opts=Export._meta,
        back=reverse("admin:crawlservice_export_changelist"),
        export=export,
        left=left(export),
        state=badge(*STATES[state_of(export)]),
        form=form,
        is_fullwidth="",
    )
