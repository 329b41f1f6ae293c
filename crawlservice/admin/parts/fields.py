"""Form fields with the widgets of the theme. They are optional, unless ``required`` is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminPasswordWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanSwitchWidget,
)

OPTIONAL: dict[str, Any] = {"required": False}


def text(label: Any, help_text: Any = "", attrs: Any = None, **more: Any) -> forms.CharField:
    """``attrs``: of the input."""
    shown = {"widget": UnfoldAdminTextInputWidget(attrs), "help_text": help_text}
    return forms.CharField(label=label, **OPTIONAL | shown | more)


def secret(label: Any, help_text: Any = "") -> forms.CharField:
    """A password, which no page shows."""
    widget = UnfoldAdminPasswordWidget(attrs={"autocomplete": "new-password"})
    shown = {"widget": widget, "help_text": help_text}
    return forms.CharField(label=label, required=False, strip=False, **shown)


def lines(label: Any, rows: int, help_text: Any = "") -> forms.CharField:
    widget = UnfoldAdminTextareaWidget({"rows": rows, "spellcheck": "false"})
    return forms.CharField(label=label, required=False, widget=widget, help_text=help_text)


def whole(label: Any, help_text: Any = "", **more: Any) -> forms.IntegerField:
    shown = {"widget": UnfoldAdminIntegerFieldWidget(), "help_text": help_text}
    return forms.IntegerField(label=label, **OPTIONAL | shown | more)


def number(label: Any, help_text: Any = "", **more: Any) -> forms.FloatField:
    shown = {"widget": UnfoldAdminDecimalFieldWidget({"step": "any"}), "help_text": help_text}
    return forms.FloatField(label=label, **OPTIONAL | shown | more)


def choice(
    label: Any, choices: Iterable[Any] = (), help_text: Any = "", **more: Any
) -> forms.ChoiceField:
    shown = {"widget": UnfoldAdminSelectWidget(), "help_text": help_text, "choices": choices}
    return forms.ChoiceField(label=label, **OPTIONAL | shown | more)


def switch(label: Any, help_text: Any = "", *, initial: bool = False) -> forms.BooleanField:
    widget = UnfoldBooleanSwitchWidget()
    return forms.BooleanField(
        label=label, required=False, initial=initial, help_text=help_text, widget=widget
    )
