"""Targets of alerts in the admin; their addresses are entered and never shown whole."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.html import escape
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action

from crawlframe.base.secret import MASK
from crawlframe.errors import ConfigError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.fields import text
from crawlservice.admin.parts.lookups import Journaled, Owner, column
from crawlservice.admin.parts.read_only import OutboxRows, outbox_filter
from crawlservice.alerts.channels import set_address
from crawlservice.alerts.outbox import OUTBOX, send_again
from crawlservice.alerts.rule_fields import BadRule
from crawlservice.display import laid_out, moment, page_link
from crawlservice.models import AlertMessage, AlertTarget

TESTS = 5  # targets tested at once: each may take half a minute


class TargetForm(forms.ModelForm):
    address = text(_("Address"), attrs={"autocomplete": "off", "spellcheck": "false"})

    class Meta:
        model = AlertTarget
        fields = ("name", "kind", "webhook", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        text = _(
            "Mail: addresses, separated by commas. A service: its webhook URL as it gives it out "
            "(Slack, Discord, Teams, DingTalk, Feishu, WeCom), or such as tgram://token/chat."
        )
        if "address" in self.fields:
            stored = _("Stored encrypted ({shown}); empty: unchanged.")
            kept = str(stored).format(shown=escape(self.instance.shown)) if self.instance.pk else ""
            self.fields["address"].help_text = f"{text} {kept}".strip()

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        kind, address = cleaned["kind"], cleaned.get("address", "").strip()
        kept = self.instance.pk and not address and kind == self.initial.get("kind")
        if kept and kind != AlertTarget.Kind.WEBHOOK and not cleaned.get("webhook"):
            return cleaned
        if MASK in address:
            self.add_error("address", _("This is a mask. Enter the address itself."))
            return cleaned
        try:
            set_address(self.instance, kind, address, cleaned.get("webhook"))
        except BadRule as error:
            self.add_error(error.field, str(error))
        except ConfigError as error:
            self.add_error("kind", str(error))
        return cleaned


@admin.register(AlertTarget)
class TargetAdmin(Owner, Journaled):
    form = TargetForm
    list_display = ("name", "kind", "shown", "enabled", "last_problem", "sent_messages")
    list_per_page = 50
    list_filter = ("kind", "enabled")
    fields = ("name", "kind", "address", "webhook", "enabled")
    actions = ("send_test",)
    actions_submit_line = ("save_and_test",)

    def get_fields(self, request: HttpRequest, obj: AlertTarget | None = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return ("name", "kind", "shown", "webhook", "enabled")
        return self.fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[AlertTarget]:
        last = AlertMessage.objects.filter(target=OuterRef("pk")).order_by("-pk")
        rows: QuerySet[AlertTarget] = super().get_queryset(request)
        return rows.annotate(problem=Subquery(last.values("problem")[:1]))

    @admin.display(description=_("problem of the last message"))
    def last_problem(self, target: AlertTarget) -> str:
        return getattr(target, "problem", "") or "-"

    sent_messages = column(
        lambda pk: page_link(_("messages"), "alertmessage_changelist", target__id__exact=pk),
        *("", "pk"),
    )

    # -- actions ----------------------------------------------------------------------------------

    @admin.action(description=_("Send a test"), permissions=["change"])
    def send_test(self, request: HttpRequest, chosen: QuerySet[AlertTarget]) -> None:
        for target in chosen.select_related("webhook")[:TESTS]:
            self._test(request, target)

    @action(description=_("Save and send a test"), permissions=["change"])
    def save_and_test(self, request: HttpRequest, target: AlertTarget) -> None:
        # After the form's transaction: a test may take half a minute.
        transaction.on_commit(lambda: self._test(request, target))

    def _test(self, request: HttpRequest, target: AlertTarget) -> None:
        # Imported here: nothing else in the web sends.
        from crawlservice.alerts.outbox import test

        problem, reply = test(target)
        record("test alert target", **by(request), target=target.name, problem=problem)
        if problem:
            self.message_user(request, f"{target}: {problem}", messages.ERROR)
        else:
            text = _("%(target)s accepted the test: %(reply)s")
            shown = text % {"target": target, "reply": reply or "-"}
            self.message_user(request, shown, messages.SUCCESS)


@admin.register(AlertMessage)
class MessageAdmin(OutboxRows):
    outbox = OUTBOX
    steers = "crawlservice.change_alertrule"
    list_display = (
        "id", "target", "title", "state", "attempts", "next_try", "sent", "problem", "created",
    )  # fmt: skip
    list_filter = (outbox_filter(OUTBOX), "target")
    list_select_related = ("target", "rule")
    fields = (
        "target", "rule", "title", "shown_text", "state", "attempts", "next_try", "sent",
        "problem", "reply", "created",
    )  # fmt: skip

    def resend(self, row: AlertMessage) -> dict[str, Any]:
        send_again(row)
        return {"verb": "send again alert message", "target": row.target.name, "message": row.pk}

    shown_text = column(laid_out, _("text"), "text")
    sent = column(moment, _("sent"), "sent_at")
