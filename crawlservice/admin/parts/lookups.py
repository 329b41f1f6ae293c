"""The base of the admin's lists: only the look-ups that their filters declare are allowed.

Django allows any look-up on any field of a list's own rows. Whoever sees the list could probe
columns that it does not show (``?secret__startswith=``), and make the database fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, ClassVar, TypeVar

from django.contrib import admin, messages
from django.contrib.admin import ShowFacets
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ERROR_FLAG, ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import DataError
from django.db.models import CASCADE, Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.spider_fields import SpiderWidget

L = TypeVar("L", bound=ChangeList)
WRONG_VALUES = (ValueError, OverflowError, ValidationError, DataError)


class DeclaredList(ChangeList):
    """Raises IncorrectLookupParameters for a parameter that no filter declares, and for a value
    that a filter or the database cannot read."""

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        if any("\0" in text for pair in request.GET.lists() for text in (pair[0], *pair[1])):
            raise IncorrectLookupParameters("NUL")
        try:
            super().__init__(request, *args, **kwargs)
            len(self.result_list)  # makes the database check the values
        except WRONG_VALUES as error:
            raise IncorrectLookupParameters(error) from error

    def get_filters(self, request: HttpRequest) -> Any:
        """Each filter removes its parameters; the remaining ones were not declared."""
        found = super().get_filters(request)
        if left := found[2]:
            raise IncorrectLookupParameters(", ".join(left))
        return found


def with_facts(add: Callable[[HttpRequest, list[Any]], object], base: type[L]) -> type[L]:
    """A list for whose rows ``add`` looks up facts, once for all rows of a page."""

    class WithFacts(base):  # type: ignore[valid-type, misc]
        result_list: Any

        def get_results(self, request: HttpRequest) -> None:
            super().get_results(request)
            self.result_list = [*self.result_list]
            add(request, self.result_list)

    return WithFacts


class DeclaredLookups(ModelAdmin):
    """The base of all lists: a bad look-up redirects to the list without it, with a message."""

    show_facets = ShowFacets.NEVER  # they would count whole tables
    changelist: ClassVar[type[ChangeList]] = DeclaredList
    deferred: Sequence[str] = ()  # columns that are read only where they are shown

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        """What the template of the list gets besides."""
        return {}

    def form_context(self, request: HttpRequest, pk: str | None) -> dict[str, Any]:
        """Further values for the template of the form; ``pk`` is None for a new row."""
        return {}

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {**(extra_context or {}), **self.form_context(request, object_id)}
        return super().changeform_view(request, object_id, form_url, context)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return self.changelist

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.defer(*self.deferred)

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name == "spider":
            kwargs["widget"] = SpiderWidget()
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        try:
            found: ChangeList = super().get_changelist_instance(request)
        except IncorrectLookupParameters:
            text = _("This list has no such filter, or the value is invalid.")
            self.message_user(request, text, messages.WARNING)
            raise
        return found

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Removes Django's error flag, with which a second bad look-up would count as a database
        error."""
        if ERROR_FLAG in request.GET:
            request.GET = request.GET.copy()  # type: ignore[assignment]
            del request.GET[ERROR_FLAG]  # type: ignore[misc]
        context = {**(extra_context or {}), **self.list_context(request)}
        answer: HttpResponse = super().changelist_view(request, context)
        return answer

    def each(
        self, request: HttpRequest, rows: Iterable[Any], act: Callable[[Any], object], done: Any
    ) -> None:
        """Calls ``act`` with each row. Says why it refused some, and ``done`` for the number of the
        others."""
        changed = 0
        for row in rows:
            try:
                act(row)
            except (CrawlframeError, PermissionDenied) as error:
                self.message_user(request, f"{row}: {error}", messages.ERROR)
            else:
                changed += 1
        if changed:
            self.message_user(request, str(done).format(n=changed), messages.SUCCESS)

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        """Refuses malformed row ids."""
        key = self.opts.pk
        try:
            for text in request.POST.getlist("_selected_action"):
                key.run_validators(key.to_python(text))
        except (ValidationError, ValueError):
            self.message_user(request, _("There is no such row."), messages.WARNING)
            return HttpResponseRedirect(request.get_full_path())
        answer: HttpResponse | None = super().response_action(request, queryset, *args, **kwargs)
        return answer


def row_action(
    title: Any, permission: str, act: Callable[[HttpRequest, Any], object], done: Any
) -> Callable[..., None]:
    """An action of a list, which calls ``act`` with each chosen row, as ``DeclaredLookups.each``
    does."""

    @admin.action(description=title, permissions=[permission])
    def run(self: DeclaredLookups, request: HttpRequest, chosen: QuerySet[Any]) -> None:
        self.each(request, chosen, lambda row: act(request, row), done)

    return run


def column(
    show: Callable[[Any], Any], title: Any, field: str = "", ordering: str | None = None
) -> Callable[[Any, Any], Any]:
    """A column in which ``show`` displays the row, or a field of it. "event.task_id" is the field
    of an object that the row refers to. ``ordering``: the field by which the column is sorted."""

    @admin.display(description=title, ordering=ordering)
    def shown(self: Any, row: Any) -> Any:
        return show(attrgetter(field)(row) if field else row)

    return shown


class Owner(DeclaredLookups):
    """Deleting a row deletes the rows it owns, though none may delete the latter alone. The deleted
    rows are counted, not listed: there may be a million."""

    def get_deleted_objects(self, objs: Iterable[Any], request: HttpRequest) -> Any:
        going = list(objs)
        counts = {self.opts.verbose_name_plural: len(going)}
        for relation in self.opts.related_objects:
            owned = relation.related_model
            rows = owned._default_manager.filter(**{f"{relation.field.name}__in": going})
            if relation.on_delete is CASCADE and (number := rows.count()):
                counts[owned._meta.verbose_name_plural] = number
        lacking = {
            self.opts.verbose_name for row in going if not self.has_delete_permission(request, row)
        }
        return [str(row) for row in going], counts, lacking, []


class Journaled(admin.ModelAdmin):
    """Mixin, listed before unfold's ModelAdmin. The journal replaces Django's own log.
    ``journal_noun``: of a list that records by itself how rows are saved; deletions are recorded
    with this noun, and with the row's name by it."""

    journal_noun: ClassVar[str] = ""

    def details(self, row: Any) -> dict[str, Any]:
        """Details of a row for the journal, besides its name."""
        return {}

    def log_addition(self, request: HttpRequest, object: Any, message: Any) -> None:  # type: ignore[override]
        self._note(request, "add", object)

    def log_change(self, request: HttpRequest, object: Any, message: Any) -> None:  # type: ignore[override]
        changes = message if isinstance(message, list) else []
        fields = [name for one in changes for name in one.get("changed", {}).get("fields", ())]
        if fields:
            self._note(request, "change", object, fields=fields)

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:  # type: ignore[override]
        for row in queryset:
            if self.journal_noun:
                named: dict[str, Any] = {self.journal_noun: str(row)}
                record(f"delete {self.journal_noun}", **by(request), **named)
            else:
                self._note(request, "delete", row)

    def _note(self, request: HttpRequest, verb: str, row: Model, **detail: Any) -> None:
        if not self.journal_noun:
            detail = {"name": str(row), "id": row.pk, **detail, **self.details(row)}
            record(f"{verb}_{row._meta.model_name}", **by(request), **detail)
