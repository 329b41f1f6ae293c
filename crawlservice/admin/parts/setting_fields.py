"""Form fields for the settings of a task, which replace its spider's.

Widgets in which spiders are typed. They offer the known ones, which the browser asks for by
itself: a page neither waits for Redis nor fails without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget

from crawlframe.errors import ArgumentError
from crawlframe.spider.politeness_bounds import bounds
from crawlframe.spider.setting_tables import flat, nested
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.admin.parts.argument_form import input_field, show, text_of
from crawlservice.tasks import overrides
from crawlservice.tasks.arguments.spider_arguments import accepted
from crawlservice.tasks.labels import BadLabel, parse_all

NAMES = "admin/crawlservice/_spider_names.html"
SETTING = "setting-"  # precedes the name of a setting in the name of its field


def setting_fields(
    info: SpiderInfo, given: Mapping[str, Any], user: User | None = None
) -> dict[str, forms.Field]:
    """A field for each setting that the user may change; an empty one leaves the spider's.
    ``given`` are initial values."""
    known, own, given = overrides.schema(), info.settings.by_part(), flat(given)
    limits = {} if overrides.may_be_rough(user) else bounds(info.settings)
    fields: dict[str, forms.Field] = {}
    for name, kind in known["properties"].items():
        bound = limits.get(name)
        if bound is not None and bound.kind == "fixed":
            continue
        field = input_field(kind, known, False)
        what = accepted(kind, known)
        value = own[name]
        if value is not None:
            value = int(value) if isinstance(value, float) and value.is_integer() else value
            what += _("; the spider: {value}").format(value=text_of(value))
        if bound is not None and bound.value != ():
            what += "; " + overrides.words_of(bound)
        field.label, field.help_text = name, escape(what)
        if name in given:
            show(field, given[name])
        fields[SETTING + name] = field
    return fields


def read_settings(cleaned: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the settings that were filled in, and the unreadable texts, by name."""
    given, wrong = {}, {}
    for field, text in cleaned.items():
        if field.startswith(SETTING) and text not in ("", None):
            name = field.removeprefix(SETTING)
            try:
                given[name] = overrides.read(name, text)
            except ArgumentError as error:
                wrong[name] = str(error)
    return nested(given), wrong


def clean_settings(
    form: forms.BaseForm, info: SpiderInfo, cleaned: Mapping[str, Any], user: User | None = None
) -> dict[str, Any]:
    """The settings that were filled in; their mistakes become errors of the form."""
    given, wrong = read_settings(cleaned)
    for name, problem in (wrong or overrides.problems(info, given, user)).items():
        form.add_error(SETTING + name if name else None, problem)
    return given


class SpiderWidget(UnfoldAdminTextInputWidget):
    """Field for the name of a spider."""

    def __init__(self, attrs: Any = None) -> None:
        super().__init__({**(attrs or {}), "list": "cf-spiders", "autocomplete": "off"})

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        field = super().render(name, value, attrs, renderer)
        return format_html("{}{}", field, render_to_string(NAMES))


class SpidersWidget(UnfoldAdminTextareaWidget):
    """Spiders, one a line, and a field for one more: a text of several lines has no list."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        one = SpiderWidget({"aria-label": _("one more"), "placeholder": _("one more")})
        return format_html(
            "{}{}", super().render(name, value, attrs, renderer), one.render(name, "")
        )

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str | None:
        return "\n".join(filter(None, data.getlist(name))) if name in data else None


class LabelsField(forms.CharField):
    """Labels, one a line; its value is a dict."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs |= {
            "required": False,
            "label": _("Labels"),
            "help_text": _("one per line, such as domain=news; tasks are found by them"),
            "widget": UnfoldAdminTextareaWidget(attrs={"rows": 3, "spellcheck": "false"}),
        }
        super().__init__(**kwargs)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return dict(value)
        try:
            return parse_all(line for line in str(value or "").splitlines() if line.strip())
        except BadLabel as error:
            raise ValidationError(str(error)) from None

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return "\n".join(f"{name}={text}" for name, text in value.items())
        return value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return bool(self.to_python(data) != (initial or {}))
        except ValidationError:
            return True
