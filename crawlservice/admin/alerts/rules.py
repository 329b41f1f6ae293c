"""Rules of alerts in the admin: recipients, conditions and times."""

from __future__ import annotations

from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.widgets import (
    UnfoldAdminCheckboxSelectMultipleWidget,
    UnfoldAdminDecimalFieldWidget,
)

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.lookups import Journaled, Owner
from crawlservice.admin.parts.pages import POST, page, to
from crawlservice.admin.parts.spider_fields import LinesField, SpidersWidget
from crawlservice.alerts import rule_fields, wording
from crawlservice.alerts.condition import conditions
from crawlservice.alerts.rule_fields import BadRule
from crawlservice.models import AlertRule, AlertTarget, Severity

PREFIX = "threshold-"


def _threshold_fields() -> dict[str, forms.Field]:
    found: dict[str, forms.Field] = {}
    for kind in conditions().values():
        if kind.threshold is not None:
            usual = f"{kind.threshold.usual:g}"
            found[PREFIX + kind.name] = forms.FloatField(
                label=kind.title,
                required=False,
                min_value=kind.threshold.least,
                max_value=kind.threshold.most,
                help_text=kind.threshold.unit,
                widget=UnfoldAdminDecimalFieldWidget(attrs={"placeholder": usual}),
            )
    return found


class RuleForm(forms.ModelForm):
    kinds = forms.MultipleChoiceField(
        label=_("Conditions"),
        choices=[(kind.name, kind.title) for kind in conditions().values()],
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Select none for all of them."),
    )
    targets = forms.ModelMultipleChoiceField(
        label=_("Targets"),
        queryset=AlertTarget.objects.all(),
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Without one, nothing is sent."),
    )
    spiders = LinesField(
        _("Spiders"), _("one per line; none: all, and alerts without a spider"), SpidersWidget
    )
    hosts = LinesField(_("Hosts"), _("one per line, such as www.example.com; none: all"))
    labels = LinesField(_("Labels"), _("one per line, such as team=red: tasks with one of them"))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        stored = self.instance.thresholds
        for name, value in (stored if isinstance(stored, dict) else {}).items():
            self.initial[PREFIX + name] = value
        if "timezone" in self.fields:
            self.fields["timezone"].widget.attrs |= {"list": "zones", "autocomplete": "off"}

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        thresholds = {
            name.removeprefix(PREFIX): value
            for name, value in cleaned.items()
            if name.startswith(PREFIX) and value is not None
        }
        lists = {name: cleaned[name] for name in ("spiders", "hosts", "labels") if name in cleaned}
        quiet = {name: cleaned.get(name) for name in ("quiet_from", "quiet_until")}
        zone = {"timezone": cleaned["timezone"]} if "timezone" in cleaned else {}
        parts: list[dict[str, Any]] = [{"thresholds": thresholds}, quiet, zone]
        parts += [{name: value} for name, value in lists.items()]
        for fields in parts:
            try:
                cleaned |= rule_fields.checked(fields)
            except BadRule as error:
                self.add_error(error.field if error.field in self.fields else None, str(error))
        self.instance.thresholds = cleaned.get("thresholds", {})
        return cleaned


@admin.register(AlertRule)
class RuleAdmin(Owner, Journaled):
    form = type("Form", (RuleForm,), _threshold_fields())
    list_display = ("name", "enabled", "what", "whom", "quiet", "group_minutes", "repeat_hours")
    list_per_page = 50
    list_filter = ("enabled",)
    list_before_template = "admin/crawlservice/alertrule/default.html"
    change_form_outer_after_template = "admin/crawlservice/alertrule/zones.html"
    fieldsets = (
        (None, {"fields": ("name", "enabled", "targets")}),
        (_("What"), {"fields": ("least_severity", "kinds", "spiders", "hosts", "labels")}),
        (
            _("Thresholds"),
            {
                "fields": (*_threshold_fields(),),
                "description": _("Empty: the usual one, which is shown in the field."),
                "classes": ("collapse",),
            },
        ),
        (
            _("When"),
            {
                "fields": (
                    "group_minutes", "repeat_hours", "reports_resolved",
                    "quiet_from", "quiet_until", "timezone", "severe_passes",
                )
            },
        ),
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertRule]:
        rows: QuerySet[AlertRule] = super().get_queryset(request)
        return rows.prefetch_related("targets")

    def form_context(self, request: HttpRequest, pk: str | None) -> dict[str, Any]:
        return {"zones": sorted(available_timezones())}

    def list_context(self, request: HttpRequest) -> dict[str, Any]:
        return {
            "any_target": AlertTarget.objects.filter(enabled=True).exists(),
            "any_rule": AlertRule.objects.exists(),
        }

    @admin.display(description=_("what"))
    def what(self, rule: AlertRule) -> str:
        kinds = [wording.title_of(name) for name in rule.kinds]
        text = ", ".join(kinds) or gettext("all conditions")
        only = [*rule.spiders, *rule.hosts, *rule.labels]
        least = str(Severity(rule.least_severity).label)
        shown = gettext("{conditions}, from {severity} on").format(conditions=text, severity=least)
        return f"{shown} ({', '.join(map(str, only))})" if only else shown

    @admin.display(description=_("targets"))
    def whom(self, rule: AlertRule) -> str:
        return ", ".join(target.name for target in rule.targets.all()) or "-"

    @admin.display(description=_("quiet hours"))
    def quiet(self, rule: AlertRule) -> str:
        if rule.quiet_from is None or rule.quiet_until is None:
            return "-"
        return f"{rule.quiet_from:%H:%M}–{rule.quiet_until:%H:%M} {rule.timezone}"


@page("crawlservice/alertrule/default/", "crawlservice_alertrule_default", "add_alertrule", POST)
def make_default(request: HttpRequest) -> HttpResponse:
    """Makes the rule that reports everything from warnings on to all enabled targets."""
    if targets := [*AlertTarget.objects.filter(enabled=True)]:
        rule = rule_fields.make_default(targets)
        names = [target.name for target in targets]
        record("add_alertrule", **by(request), name=rule.name, id=rule.pk, targets=names)
        messages.success(request, _("The rule was made."))
    else:
        messages.error(request, _("Make a target first."))
    return to("crawlservice_alertrule_changelist")
