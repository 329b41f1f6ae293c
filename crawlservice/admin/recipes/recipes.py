"""Recipes in the admin: spiders without code, made in a form, tried on a live page, and kept with
all their versions."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.templatetags.static import static
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_POST

from crawlframe.errors import CrawlframeError, SpiderError
from crawlframe.recipes.loading import recipe_of_stored
from crawlservice.accounts.journal import by, record
from crawlservice.accounts.roles import may_submit
from crawlservice.admin.parts.columns import Owner
from crawlservice.admin.parts.keyset import row_number
from crawlservice.admin.parts.whole_page import whole_page
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

    def get_urls(self) -> list[URLPattern]:
        def named(place: str, view: Any, name: str) -> URLPattern:
            name = f"crawlservice_recipe_{name}"
            made: URLPattern = path(place, self.admin_site.admin_view(view), name=name)
            return made

        return [
            named("try/", require_POST(self.trial), "try"),
            named("<int:pk>/file/", self.file, "file"),
            named("<int:pk>/versions/<int:number>/", self.version_page, "version"),
            *super().get_urls(),
        ]

    # -- the list ---------------------------------------------------------------------------------

    @admin.display(description=gettext_lazy("description"))
    def about(self, recipe: Recipe) -> str:
        try:
            return recipe_of_stored(recipe.text).description.partition("\n")[0] or "-"
        except SpiderError as error:
            return str(error)

    @admin.display(description=gettext_lazy("version"), ordering="number")
    def version(self, recipe: Recipe) -> int:
        return recipe.number

    @admin.display(description=gettext_lazy("changed"), ordering="changed_at")
    def changed(self, recipe: Recipe) -> SafeString | str:
        return moment(recipe.changed_at)

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

    # -- the page ---------------------------------------------------------------------------------

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
                text = self._shown(request, recipe, recipe.text)
                initial = initial_of(recipe_of_stored(text))
            except SpiderError as error:
                messages.error(request, str(error))
        return self._page(request, recipe, Forms.of(initial=initial))

    def _shown(self, request: HttpRequest, recipe: Recipe, text: str) -> str:
        """The text of a version, as this user may see it."""
        return text if self.has_change_permission(request, recipe) else masked_text(text)

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
        return HttpResponseRedirect(_place(saved))

    def _page(self, request: HttpRequest, recipe: Recipe | None, forms: Forms) -> HttpResponse:
        may = self.has_add_permission(request) if recipe is None else self.has_change_permission(
            request, recipe
        )  # fmt: skip
        return whole_page(
            *(self.admin_site, request, "recipe/page"),
            recipe.name if recipe else _("Add a recipe"),
            opts=self.opts,
            recipe=recipe,
            forms=forms,
            may_change=may,
            may_submit=may_submit(request.user),
            versions=recipe.versions.all()[:MAX_VERSIONS] if recipe else (),
            converters=converters(),
        )

    # -- trying -----------------------------------------------------------------------------------

    def trial(self, request: HttpRequest) -> HttpResponse:
        """A fragment: the values that the recipe in the form finds on a page."""
        if not (self.has_add_permission(request) or self.has_change_permission(request)):
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

    # -- versions ---------------------------------------------------------------------------------

    def version_page(self, request: HttpRequest, pk: int, number: int) -> HttpResponse:
        """The changes of a version; a POST makes it the newest again."""
        recipe = get_object_or_404(Recipe, pk=pk)
        if not self.has_view_or_change_permission(request, recipe):
            raise PermissionDenied
        version = get_object_or_404(RecipeVersion, recipe=recipe, number=number)
        if request.method == "POST":
            return self._restore(request, recipe, number)
        before = recipe.versions.filter(number__lt=number).first()
        text, newest = (self._shown(request, recipe, one.text) for one in (version, recipe))
        old = self._shown(request, recipe, before.text) if before else ""
        return whole_page(
            *(self.admin_site, request, "recipe/version"),
            _("{recipe}, version {n}").format(recipe=recipe.name, n=number),
            opts=self.opts,
            recipe=recipe,
            version=version,
            before=before,
            text=text,
            changes=versions.difference(old, text) if before else [],
            since=versions.difference(text, newest),
            may_change=self.has_change_permission(request, recipe),
            is_fullwidth="",
        )

    def _restore(self, request: HttpRequest, recipe: Recipe, number: int) -> HttpResponse:
        if not self.has_change_permission(request, recipe):
            raise PermissionDenied
        try:
            saved = versions.restore(recipe.pk, number, request.user)
        except CrawlframeError as error:
            messages.error(request, str(error))
        else:
            record("restore recipe", **by(request), recipe=recipe.name, version=number)
            text = _("Version {old} of {recipe} is back, as version {n}.")
            told = text.format(old=number, recipe=recipe.name, n=saved.number)
            messages.success(request, told)
        return HttpResponseRedirect(_place(recipe))

    def file(self, request: HttpRequest, pk: int) -> HttpResponse:
        """The recipe as a file for the folder of the spiders."""
        recipe = get_object_or_404(Recipe, pk=pk)
        if not self.has_view_or_change_permission(request, recipe):
            raise PermissionDenied
        name = f'attachment; filename="{recipe.name}.json"'
        return HttpResponse(
            self._shown(request, recipe, recipe.text),
            content_type="application/json",
            headers={"Content-Disposition": name},
        )

    # -- deleting ---------------------------------------------------------------------------------

    def delete_model(self, request: HttpRequest, obj: Recipe) -> None:
        self._remove(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Recipe]) -> None:
        for recipe in queryset:
            self._remove(request, recipe)

    def response_delete(self, request: HttpRequest, obj_display: str, obj_id: int) -> HttpResponse:
        return HttpResponseRedirect(reverse("admin:crawlservice_recipe_changelist"))

    def _remove(self, request: HttpRequest, recipe: Recipe) -> None:
        name = recipe.name
        try:
            versions.remove(recipe)
        except CrawlframeError as error:
            messages.error(request, str(error))
            return
        record("delete recipe", **by(request), recipe=name)
        messages.success(request, _("{recipe} is deleted.").format(recipe=name))


def _place(recipe: Model) -> str:
    return reverse("admin:crawlservice_recipe_change", args=[recipe.pk])
