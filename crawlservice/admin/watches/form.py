"""Forms of watches: beginning one, and its budget."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
)

from crawlservice.watches.editing import LEAST_BUDGET, MOST_BUDGET


class BudgetForm(forms.Form):
    """Requests per day, in place of what the spider says."""

    budget = forms.FloatField(
        label=_("Budget"),
        required=False,
        min_value=LEAST_BUDGET,
        max_value=MOST_BUDGET,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
        help_text=_("requests per day; empty: as the spider says"),
    )
    host_budget = forms.FloatField(
        label=_("Budget of a host"),
        required=False,
        min_value=LEAST_BUDGET,
        max_value=MOST_BUDGET,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
        help_text=_("requests per day and host; empty: as the spider says"),
    )


class BeginForm(BudgetForm):
    spider = forms.ChoiceField(
        label=_("Spider"),
        widget=UnfoldAdminSelectWidget(),
        help_text=_("those that say when their pages are visited again"),
    )
    arguments = forms.CharField(
        label=_("Arguments"),
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}),
        help_text=_('A JSON object, such as {"city": "Ulm"}.'),
    )
    field_order = ("spider", "arguments", "budget", "host_budget")

    def __init__(self, spiders: list[str], *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["spider"].choices = [(name, name) for name in spiders]  # type: ignore[attr-defined]

    def clean_arguments(self) -> dict[str, Any]:
        text = self.cleaned_data["arguments"].strip()
        try:
            found = json.loads(text or "{}")
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise forms.ValidationError(_("Enter a JSON object."))
        return found
