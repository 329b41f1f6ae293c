"""Recipes in the admin: spiders without code, made in a form, tried on a live page, and kept with
all their versions."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from crawlframe.errors import CrawlframeError, SpiderError
from crawlframe.recipes.loading import recipe_of_stored
from crawlservice.accounts.journal import by, record
from crawlservice.accounts.roles import may_submit
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.lookups import Owner, column
from crawlservice.admin.parts.pages import FORM, POST, check, may, page, to, to_row, whole_page
from crawlservice.admin.recipes.form import converters, initial_of
from crawlservice.admin.recipes.input import Forms
from crawlservice.admin.tasks.submit_page import submit_at_once
from crawlservice.display import moment
from crawlservice.models import Recipe, RecipeVersion
from crawlservice.recipes import versions
from crawlservice.recipes.current import masked_text
from crawlservice.recipes.trial import try_out

TRIAL = "admin/crawlservice/recipe/trial.html"
MAX_VERSIONS = 20  # versions listed


@admin.register(Recipe)
class RecipeAdmin(Owner):
    list_display = ("name", "about", "version", "changed", "by_whom", "run")
    search_fields = ("name",)
    list_per_page = 50

    @admin.display(description=gettext_lazy("description"))
    def about(self, recipe: Recipe) -> str:
        try:
            return recipe_of_stored(recipe.text).description.partition("\n")[0] or "-"
        except SpiderError as error:
            return str(error)

    version = column(int, gettext_lazy("version"), "number", "number")
    changed = column(moment, gettext_lazy("changed"), "changed_at", "changed_at")

    @admin.display(description=gettext_lazy("by"))
    def by_whom(self, recipe: Recipe) -> str:
        last = recipe.versions.first()
        return (last.name if last else "") or "-"

    @admin.display(description="")
    def run(self, recipe: Recipe) -> SafeString:
        place = reverse("admin:submit")
        text = _("Run")
        return format_html(
            '<a class="cf-link" href="{}?spider={}">{}</a>', place, recipe.name, text
        )

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        recipe = None
        if object_id is not None:
            recipe = get_object_or_404(Recipe, pk=row_number(object_id))
        if not self._may_look(request, recipe):
            raise PermissionDenied
        if request.method == "POST":
            return self._save(request, recipe)
        initial: dict[str, Any] = {"name": request.GET.get("name", "")}
        if recipe is not None:
            try:
                text = _shown(request, recipe.text)
                initial = initial_of(recipe_of_stored(text))
            except SpiderError as error:
                messages.error(request, str(error))
        return self._page(request, recipe, Forms.of(initial=initial))

    def _may_look(self, request: HttpRequest, recipe: Recipe | None) -> bool:
        if recipe is None:
            return bool(self.has_add_permission(request))
        return bool(self.has_view_or_change_permission(request, recipe))

    def _save(self, request: HttpRequest, recipe: Recipe | None) -> HttpResponse:
        if recipe is not None and not self.has_change_permission(request, recipe):
            raise PermissionDenied
        posted = request.POST.copy()
        if recipe is not None:
            posted["name"] = recipe.name  # tasks and schedules know it by that
        forms = Forms.of(posted)
        contents = forms.contents()
        if contents is None:
            return self._page(request, recipe, forms)
        try:
            if recipe is None:
                saved = versions.add(contents, request.user)
            else:
                text = posted.get("seen", "")
                seen = int(text) if text.isdecimal() and len(text) < 10 else 0
                saved = versions.change(recipe.pk, contents, request.user, seen=seen)
        except CrawlframeError as error:
            messages.error(request, str(error))
            return self._page(request, recipe, forms)
        verb = "add recipe" if recipe is None else "change recipe"
        if recipe is None or saved.number != recipe.number:
            record(verb, **by(request), recipe=saved.name, version=saved.number)
        text = _("Version {n} of {recipe} is saved; new tasks and running ones use it.")
        messages.success(request, text.format(n=saved.number, recipe=saved.name))
        if "_run" in posted and may_submit(request.user):
            return submit_at_once(request, saved.name)
        return to_row(saved)

    def _page(self, request: HttpRequest, recipe: Recipe | None, forms: Forms) -> HttpResponse:
        may = self.has_add_permission(request) if recipe is None else self.has_change_permission(
            request, recipe
        )  # fmt: skip
        return whole_page(
            *(request, "recipe/page"),
            recipe.name if recipe else _("Add a recipe"),
            opts=self.opts,
            recipe=recipe,
            forms=forms,
            may_change=may,
            may_submit=may_submit(request.user),
            versions=recipe.versions.all()[:MAX_VERSIONS] if recipe else (),
            converters=converters(),
        )

    def delete_model(self, request: HttpRequest, obj: Recipe) -> None:
        self._remove(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Recipe]) -> None:
        for recipe in queryset:
            self._remove(request, recipe)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: int) -> HttpResponse:
        return to("crawlservice_recipe_changelist")

    def _remove(self, request: HttpRequest, recipe: Recipe) -> None:
        name = recipe.name
        try:
            versions.remove(recipe)
        except CrawlframeError as error:
            messages.error(request, str(error))
            return
        record("delete recipe", **by(request), recipe=name)
        messages.success(request, _("{recipe} is deleted.").format(recipe=name))


def _shown(request: HttpRequest, text: str) -> str:
    """The text of a version, as this user may see it."""
    return text if may(request, "change_recipe") else masked_text(text)


@page("crawlservice/recipe/try/", "crawlservice_recipe_try", methods=POST)
def trial(request: HttpRequest) -> HttpResponse:
    """A fragment: the values that the recipe in the form finds on a page."""
    if not (may(request, "add_recipe") or may(request, "change_recipe")):
        raise PermissionDenied
    posted = request.POST.copy()
    posted["name"] = posted.get("name") or "trial"
    forms = Forms.of(posted)
    contents = forms.contents()
    context: dict[str, Any] = {"style": static("crawlservice/recipe-page.css")}
    if contents is None:
        context["mistakes"] = list(forms.mistakes())
    else:
        try:
            url = posted.get("try_url", "").strip()
            context["found"] = try_out(contents, url, str(settings.BASE_DIR))
        except CrawlframeError as error:
            context["problem"] = str(error)
    return TemplateResponse(request, TRIAL, context)


@page(
    "crawlservice/recipe/<int:pk>/versions/<int:number>/",
    *("crawlservice_recipe_version", "view_recipe", FORM),
)
def version_page(request: HttpRequest, pk: int, number: int) -> HttpResponse:
    """The changes of a version; a POST makes it the newest again."""
    recipe = get_object_or_404(Recipe, pk=pk)
    version = get_object_or_404(RecipeVersion, recipe=recipe, number=number)
    if request.method == "POST":
        return _restore(request, recipe, number)
    before = recipe.versions.filter(number__lt=number).first()
    text, newest = (_shown(request, one.text) for one in (version, recipe))
    old = _shown(request, before.text) if before else ""
    return whole_page(
        *(request, "recipe/version"),
        _("{recipe}, version {n}").format(recipe=recipe.name, n=number),
        opts=Recipe._meta,
        recipe=recipe,
        version=version,
        before=before,
        text=text,
        changes=versions.difference(old, text) if before else [],
        since=versions.difference(text, newest),
        may_change=may(request, "change_recipe"),
        is_fullwidth="",
    )


def _restore(request: HttpRequest, recipe: Recipe, number: int) -> HttpResponse:
    check(request, "change_recipe")
    try:
        saved = versions.restore(recipe.pk, number, request.user)
    except CrawlframeError as error:
        messages.error(request, str(error))
    else:
        record("restore recipe", **by(request), recipe=recipe.name, version=number)
        text = _("Version {old} of {recipe} is back, as version {n}.")
        told = text.format(old=number, recipe=recipe.name, n=saved.number)
        messages.success(request, told)
    return to_row(recipe)


@page("crawlservice/recipe/<int:pk>/file/", "crawlservice_recipe_file", "view_recipe")
def recipe_file(request: HttpRequest, pk: int) -> HttpResponse:
    """The recipe as a file for the folder of the spiders."""
    recipe = get_object_or_404(Recipe, pk=pk)
    name = f'attachment; filename="{recipe.name}.json"'
    return HttpResponse(
        _shown(request, recipe.text),
        content_type="application/json",
        headers={"Content-Disposition": name},
    )
