"""Form fields of spiders: for their arguments, built from the schema that nodes published, for the
settings of a task, which replace its spider's, and for names of spiders, labels and lines.

Fields of spiders offer the known ones, which the browser asks for by itself: a page neither waits
for Redis nor fails without it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from django import forms
from django.core.exceptions import ValidationError
from django.template.loader import render_to_string
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from crawlframe.base.secret import masked
from crawlframe.errors import ArgumentError
from crawlframe.spider.politeness_bounds import bounds
from crawlframe.spider.setting_tables import flat, nested
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.tasks import overrides
from crawlservice.tasks.arguments.secrets import Schema, has_secrets, takes_secrets
from crawlservice.tasks.arguments.spider_arguments import accepted, resolve
from crawlservice.tasks.labels import BadLabel, parse_all

NAMES = "admin/crawlservice/_spider_names.html"
PREFIX = "argument-"  # precedes the name of an argument in the name of its field
SETTING = "setting-"  # the same for a setting
INPUT_TYPES = {"date": "date", "time": "time", "uri": "url"}


def argument_fields(info: SpiderInfo, arguments: dict[str, Any]) -> dict[str, forms.Field]:
    """A field for each argument, by PREFIX plus its name. ``arguments`` are initial values, which
    replace the spider's defaults."""
    fields: dict[str, forms.Field] = {}
    for name, schema in info.arguments.get("properties", {}).items():
        field = input_field(schema, info.arguments, name in info.arguments.get("required", ()))
        what = accepted(schema, info.arguments)
        field.label, field.help_text = name, escape(what)  # the theme renders this as HTML
        field.error_messages["required"] = _("This field is required: {what}").format(what=what)
        if name in arguments:
            show(field, arguments[name])
        fields[PREFIX + name] = field
    return fields


def filled_in(info: SpiderInfo, cleaned: dict[str, Any]) -> dict[str, str]:
    """The arguments whose fields differ from the spider's defaults, as text."""
    given: dict[str, str] = {}
    for name, schema in info.arguments.get("properties", {}).items():
        value = cleaned.get(PREFIX + name)
        text = text_of(value) if isinstance(value, bool) else value or ""
        own = "default" in schema
        left = text == text_of(schema["default"]) if own else text == ""
        # An emptied text field means empty text; any other empty field counts as not filled in.
        if not left and (text or (own and isinstance(schema["default"], str))):
            given[name] = text
    return given


def is_untouched(form: forms.BaseForm, name: str, before: Any) -> bool:
    """Whether the field of an argument was sent as it was shown; a secret is shown empty."""
    field = form.fields.get(PREFIX + name)
    if field is None:
        return False
    sent = form.data.get(PREFIX + name, "").replace("\r\n", "\n")
    if isinstance(field.widget, UnfoldAdminPasswordWidget):
        return has_secrets(before) and sent == ""
    return bool(sent == text_of(before))


def text_of(value: Any) -> str:
    """A value as it would be typed, with the mask for secrets."""
    value = masked(value)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def show(field: forms.Field, value: Any) -> None:
    """Makes this the initial value of a field."""
    if isinstance(field, forms.BooleanField):
        field.initial = value
        return
    if isinstance(field.widget, UnfoldAdminPasswordWidget):
        if has_secrets(value):
            field.required = False
            field.widget.attrs["placeholder"] = _("unchanged; type another to replace it")
        return
    field.initial = text = text_of(value)
    field.required = field.required and text != ""  # an initial value may be empty
    if isinstance(field, forms.ChoiceField):
        choices = cast("list[tuple[str, str]]", field.choices)
        if text not in dict(choices):  # a former choice must not silently become another
            field.choices = [*choices, (text, text)]
    elif "\n" in text:  # browsers drop line breaks in a field of one line
        field.widget = UnfoldAdminTextareaWidget(attrs={"rows": 2})


def input_field(schema: Schema, root: Schema, required: bool) -> forms.Field:
    """The form field for a value of this JSON schema, entered as text."""
    own = schema.get("default")
    if takes_secrets(schema, root):  # a page must not even repeat the typed text
        secret = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})
        return forms.CharField(widget=secret, required=required, strip=False)
    kind = _plain(schema, root)
    words: dict[str, Any] = {"required": required, "initial": text_of(own)}
    if "enum" in kind:
        choices = [(text_of(value), text_of(value)) for value in kind["enum"]]
        if own not in kind["enum"]:
            choices = [("", "–"), *(choice for choice in choices if choice[0])]
        return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget(), **words)
    if kind.get("type") == "boolean":
        if isinstance(own, bool):
            widget = UnfoldBooleanSwitchWidget()
            return forms.BooleanField(required=False, initial=own, widget=widget)
        choices = [("", "–"), ("true", str(_("yes"))), ("false", str(_("no")))]
        return forms.ChoiceField(choices=choices, widget=UnfoldAdminSelectWidget(), **words)
    if kind.get("type") in ("array", "object"):
        return forms.CharField(widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}), **words)
    return forms.CharField(widget=_input(kind), **words)


def _input(kind: Schema) -> Any:
    if kind.get("type") in ("integer", "number"):
        step = "1" if kind["type"] == "integer" else "any"
        limits = {"min": kind.get("minimum"), "max": kind.get("maximum"), "step": step}
        attrs = {name: value for name, value in limits.items() if value is not None}
        return UnfoldAdminIntegerFieldWidget(attrs=attrs)
    widget = UnfoldAdminTextInputWidget()
    widget.input_type = INPUT_TYPES.get(kind.get("format", ""), "text")
    return widget


def _plain(schema: Schema, root: Schema) -> Schema:
    """The schema without null, if a single one is left then; it decides which field is used."""
    schema = resolve(schema, root)
    either = schema.get("anyOf") or schema.get("oneOf") or ()
    choices = [resolve(one, root) for one in either]
    others = [one for one in choices if one.get("type") != "null"]
    if len(others) == 1:
        return others[0]
    if "enum" in schema:
        return {"enum": [value for value in schema["enum"] if value is not None]}
    return {} if choices else schema


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
        one = SpiderWidget(
            {"aria-label": gettext_lazy("one more"), "placeholder": gettext_lazy("one more")}
        )
        return format_html(
            "{}{}", super().render(name, value, attrs, renderer), one.render(name, "")
        )

    def value_from_datadict(self, data: Any, files: Any, name: str) -> str | None:
        return "\n".join(filter(None, data.getlist(name))) if name in data else None


class LinesField(forms.CharField):
    """Texts, one a line; its value is a list."""

    def __init__(self, label: Any, help_text: Any, widget: Any = UnfoldAdminTextareaWidget) -> None:
        shown = widget(attrs={"rows": 2, "spellcheck": "false"})
        super().__init__(required=False, label=label, help_text=help_text, widget=shown)

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list):
            return value
        return [line.strip() for line in str(value or "").splitlines() if line.strip()]

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(map(str, value)) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.to_python(data) != (initial or []))


class LabelsField(forms.CharField):
    """Labels, one a line; its value is a dict."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs |= {
            "required": False,
            "label": gettext_lazy("Labels"),
            "help_text": gettext_lazy("one per line, such as domain=news; tasks are found by them"),
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
