"""Forms of orders for hosts, and of the limits of a task."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextInputWidget,
)

from crawlframe import gates
from crawlservice.hosts.orders import MAX_CONCURRENCY, MAX_DELAY, Terms
from crawlservice.hosts.rules import rule_of
from crawlservice.models import NOTE, Host
from crawlservice.tasks.limits import AUTO, MAX_PAGES, Delay

TIME = "%Y-%m-%dT%H:%M"  # as browsers write it


class NoForm(forms.Form):
    """A form without fields: only a confirmation."""


class PauseForm(forms.Form):
    """Until when, and why."""

    until = forms.DateTimeField(
        label=_("End"),
        required=False,
        widget=UnfoldAdminTextInputWidget(attrs={"placeholder": "2026-01-31 18:00"}),
        help_text=_("in UTC; empty: it does not end by itself"),
    )
    note = forms.CharField(
        label=_("Note"),
        required=False,
        max_length=NOTE,
        widget=UnfoldAdminTextInputWidget(),
        help_text=_("why, for colleagues"),
    )

    @property
    def terms(self) -> Terms:
        return Terms(self.cleaned_data["until"], self.cleaned_data["note"])


class OrderForm(PauseForm):
    delay = forms.FloatField(
        label=_("Delay"),
        required=False,
        min_value=0,
        max_value=MAX_DELAY,
        widget=UnfoldAdminDecimalFieldWidget(attrs={"step": "any"}),
        help_text=_(
            "seconds between two requests, for all tasks and nodes; empty: as each task says"
        ),
    )
    concurrency = forms.IntegerField(
        label=_("Concurrency"),
        required=False,
        min_value=1,
        max_value=MAX_CONCURRENCY,
        widget=UnfoldAdminIntegerFieldWidget(),
        help_text=_("requests in flight, for all tasks and nodes; empty: as each task says"),
    )
    field_order = ("delay", "concurrency", *gates.names(), "until", "note")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in gates.names():
            rule = rule_of(name)
            self.fields[name] = forms.CharField(
                label=str(rule.label), required=False, widget=UnfoldAdminTextInputWidget(),
                help_text=str(rule.help),
            )  # fmt: skip
        self.order_fields(self.field_order)

    @property
    def rules(self) -> dict[str, str]:
        return {name: self.cleaned_data[name] for name in gates.names()}


class LimitsForm(forms.Form):
    """The limits of a task that can be changed while it runs."""

    delay = forms.CharField(
        label=_("Delay"),
        widget=UnfoldAdminTextInputWidget(),
        help_text=_(
            "seconds between two requests to a host, or auto: as fast as each host can take"
        ),
    )
    concurrency = forms.IntegerField(
        label=_("Concurrency"),
        min_value=1,
        max_value=MAX_CONCURRENCY,
        widget=UnfoldAdminIntegerFieldWidget(),
        help_text=_("requests in flight per host"),
    )
    page_limit = forms.IntegerField(
        label=_("Page limit"),
        min_value=0,
        max_value=MAX_PAGES,
        widget=UnfoldAdminIntegerFieldWidget(),
        help_text=_("0: no limit. Links that were left out before are not brought back"),
    )

    def clean_delay(self) -> Delay:
        text = self.cleaned_data["delay"].strip()
        if text == AUTO:
            return AUTO
        try:
            return float(text)
        except ValueError:
            raise forms.ValidationError(_("Enter a number of seconds, or auto.")) from None


def ordered(host: Host) -> dict[str, Any]:
    """The initial values of an OrderForm."""
    until = host.order_until
    return {
        "delay": host.delay,
        "concurrency": host.concurrency,
        **host.gates,
        "until": until.strftime(TIME) if until else "",
        "note": host.note,
    }
