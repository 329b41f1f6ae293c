"""The form of a schedule: its spider, and the fields of the arguments that the spider takes.

While the spider is unknown, arguments are entered as JSON and not checked."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django import forms
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from crawlframe.base.secret import masked
from crawlframe.errors import ArgumentError, CrawlframeError
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import SpiderInfo
from crawlframe.spider.task_settings import overridden
from crawlservice.admin.parts.spider_fields import (
    PREFIX,
    LabelsField,
    argument_fields,
    clean_settings,
    filled_in,
    is_untouched,
    setting_fields,
)
from crawlservice.models import Schedule
from crawlservice.scheduling.editing import set_arguments
from crawlservice.scheduling.timing import BadTiming, Timing
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.secrets import readable, restored
from crawlservice.tasks.submit import published

SPIDER = "admin/crawlservice/schedule/spider.html"


class Chosen(NamedTuple):
    """The spider of a form. ``info`` is None while no node has published it; ``problem`` says
    why."""

    name: str
    info: SpiderInfo | None
    problem: str
    stored: dict[str, Any]  # its arguments so far; secrets that cannot be read are left out
    editor: Any  # the user


def form_for(request: HttpRequest, schedule: Schedule | None) -> type[ScheduleForm]:
    """The class of the form that is shown or was sent. Made once per request: what becomes known
    about the spider in between must not change it."""
    if not hasattr(request, "schedule_form"):
        request.schedule_form = _make(request, schedule)  # type: ignore[attr-defined]
    form: type[ScheduleForm] = request.schedule_form  # type: ignore[attr-defined]
    return form


def _make(request: HttpRequest, schedule: Schedule | None) -> type[ScheduleForm]:
    own = schedule.spider if schedule else ""
    name = request.POST.get("spider") or request.GET.get("spider") or own
    stored = readable(schedule.arguments) if schedule and name == own else {}
    try:
        spider = Chosen(name, published(name), "", stored, request.user)
    except CrawlframeError as error:
        spider = Chosen(name, None, str(error), stored, request.user)
    # A form sent with JSON is read as JSON, even if the spider is known by now.
    if spider.info is None or "arguments" in request.POST:
        written = {"argument_names": ("arguments",), "setting_names": ("overrides",)}
        return type("Form", (WrittenForm,), {"chosen": spider, **written})
    fields = argument_fields(spider.info, stored)
    kept = schedule.overrides if schedule and name == own else {}
    settings = setting_fields(spider.info, kept)
    names = {"argument_names": (*fields,), "setting_names": (*settings,)}
    return type("Form", (TypedForm,), {"chosen": spider, **names, **fields, **settings})


class ScheduleForm(forms.ModelForm):
    """Refuses timings that never come and arguments that the spider would refuse. A spider that no
    node has only causes a warning: its code may come later."""

    chosen: Chosen
    argument_names: tuple[str, ...]  # of its argument fields
    setting_names: tuple[str, ...]
    labels = LabelsField()

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(data, *args, **kwargs)
        if "spider" in self.fields:
            self.initial["spider"] = self.chosen.name
            self.fields["spider"].widget = SpiderInput(self.chosen)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if not {"cron", "every", "timezone"} & self.errors.keys():
            try:
                Timing.of(cleaned["cron"], cleaned["every"], cleaned["timezone"])
            except BadTiming as error:
                self.add_error(error.field, str(error))
        return cleaned


class TypedForm(ScheduleForm):
    """The form with a field for each argument."""

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        info = self.chosen.info
        assert info is not None
        values: dict[str, Any] = {}
        for name, text in filled_in(info, cleaned).items():
            if PREFIX + name in self.errors:
                continue
            try:
                values[name] = spider_arguments.read(info, name, text)
            except ArgumentError as error:
                self.add_error(PREFIX + name, str(error))
        # Text cannot tell null from "null": an unchanged field keeps the stored value.
        stored = self.chosen.stored.items()
        values |= {name: value for name, value in stored if self._is_untouched(name, value)}
        for name, problem in spider_arguments.problems(info, values, from_text=False).items():
            if PREFIX + name not in self.errors:
                self.add_error(PREFIX + name, problem)
        settings = clean_settings(self, info, cleaned)
        if not self.errors:
            try:
                set_arguments(self.instance, values, settings, self.chosen.editor, info)
            except ArgumentError as error:
                self.add_error(None, str(error))
            self.instance.overrides = settings
        return cleaned

    def _is_untouched(self, name: str, stored: Any) -> bool:
        field = self.fields.get(PREFIX + name)
        if field is None:
            return False
        if isinstance(field, forms.BooleanField):
            return self.cleaned_data.get(PREFIX + name) is stored
        return is_untouched(self, name, stored)


class WrittenForm(ScheduleForm):
    """The form with arguments as JSON."""

    def __init__(self, data: Any = None, *args: Any, **kwargs: Any) -> None:
        self.was_typed = data is not None and "arguments" not in data
        if data is not None and self.was_typed:
            typed = [name for name in data if name.startswith(PREFIX)]
            texts = {name.removeprefix(PREFIX): data[name] for name in typed}
            data = data.copy()
            data["arguments"] = json.dumps(texts, ensure_ascii=False)
        super().__init__(data, *args, **kwargs)
        self.initial["arguments"] = masked(self.chosen.stored)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if "arguments" in self.errors:
            return cleaned
        given = restored(cleaned["arguments"] or {}, self.chosen.stored)
        self._check_settings(cleaned)
        if not isinstance(given, dict):
            self.add_error("arguments", _('Enter a JSON object, such as {"city": "Ulm"}.'))
        elif self.was_typed and given:
            text = _("The spider is unknown at the moment. Your values are kept, all as text.")
            self.add_error("arguments", text)
        elif "overrides" not in self.errors:
            chosen, settings = self.chosen, cleaned["overrides"]
            try:
                set_arguments(self.instance, given, settings, chosen.editor, chosen.info)
                cleaned["arguments"] = self.instance.arguments
            except ArgumentError as error:
                self.add_error("arguments", str(error))
        return cleaned

    def _check_settings(self, cleaned: dict[str, Any]) -> None:
        given = cleaned.get("overrides")
        cleaned["overrides"] = given = {} if given is None else given
        if not isinstance(given, dict):
            self.add_error("overrides", _('Enter a JSON object, such as {"delay": 2}.'))
            return
        try:
            overridden(self.chosen.info.settings if self.chosen.info else SpiderSettings(), given)
        except ArgumentError as error:
            self.add_error("overrides", str(error))


class SpiderInput(forms.TextInput):
    """Shows the spider, with a link to choose another."""

    def __init__(self, spider: Chosen) -> None:
        super().__init__()
        self.spider = spider

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        spider = self.spider
        known = spider.info.arguments.get("properties", {}) if spider.info else spider.stored
        gone = [name for name in spider.stored if name not in known]
        context = {"name": name, "value": value, "spider": spider, "gone": gone}
        return render_to_string(SPIDER, context)
