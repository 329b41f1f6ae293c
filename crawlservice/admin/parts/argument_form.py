"""The fields in which the arguments of a spider are entered, built from the schema that nodes
published."""

from __future__ import annotations

import json
from typing import Any, cast

from django import forms
from django.utils.html import escape
from django.utils.translation import gettext as _
from unfold.widgets import (
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

from crawlframe.base.secret import masked
from crawlframe.spider.spider import SpiderInfo
from crawlservice.tasks.arguments.secrets import Schema, has_secrets, takes_secrets
from crawlservice.tasks.arguments.spider_arguments import accepted, resolve

PREFIX = "argument-"
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
