"""The field in which labels are entered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminTextareaWidget

from crawlservice.tasks.labels import BadLabel, parse_all


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
