"""The fields of a form in which settings are entered that a task has instead of its spider's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from django import forms
from django.utils.html import escape
from django.utils.translation import gettext as _

from crawlframe.errors import ArgumentError
from crawlframe.spider.politeness_bounds import bounds
from crawlframe.spider.spider import SpiderInfo
from crawlservice.accounts.roles import User
from crawlservice.admin.parts.argument_form import input_field, show, text_of
from crawlservice.tasks import overrides
from crawlservice.tasks.arguments.spider_arguments import accepted

SETTING = "setting-"  # precedes the name of a setting in that of its field


def setting_fields(
    info: SpiderInfo, given: Mapping[str, Any], user: User | None = None
) -> dict[str, forms.Field]:
    """A field for each setting that the user may change; an empty one leaves the spider's.
    ``given`` are initial values."""
    known, own = overrides.schema(), msgspec.structs.asdict(info.settings)
    limits = {} if overrides.may_be_rough(user) else bounds(info.settings)
    fields: dict[str, forms.Field] = {}
    for name, kind in known["properties"].items():
        bound = limits.get(name)
        if bound is not None and bound.kind == "fixed":
            continue
        field = input_field(kind, known, False)
        what = accepted(kind, known)
        value = own[name]
        if value is not msgspec.UNSET and value is not None:
            value = int(value) if isinstance(value, float) and value.is_integer() else value
            what += _("; the spider: {value}").format(value=text_of(msgspec.to_builtins(value)))
        if bound is not None and bound.value != ():
            what += "; " + overrides.words_of(bound)
        field.label, field.help_text = name, escape(what)
        if name in given:
            show(field, given[name])
        fields[SETTING + name] = field
    return fields


def read_settings(cleaned: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings that were filled in, and what cannot be read, by name."""
    given, wrong = {}, {}
    for field, text in cleaned.items():
        if field.startswith(SETTING) and text not in ("", None):
            name = field.removeprefix(SETTING)
            try:
                given[name] = overrides.read(name, text)
            except ArgumentError as error:
                wrong[name] = str(error)
    return given, wrong


def clean_settings(
    form: forms.BaseForm, info: SpiderInfo, cleaned: Mapping[str, Any], user: User | None = None
) -> dict[str, Any]:
    """The settings that were filled in; what is wrong with them becomes errors of the form."""
    given, wrong = read_settings(cleaned)
    for name, problem in (wrong or overrides.problems(info, given, user)).items():
        form.add_error(SETTING + name if name else None, problem)
    return given
