"""Webhooks in the admin."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.db import models, transaction
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.lookups import Journaled, Owner, column
from crawlservice.admin.parts.pages import place_of, secret_page
from crawlservice.admin.parts.read_only import OutboxRows, outbox_filter
from crawlservice.display import moment, page_link, task_link
from crawlservice.models import Delivery, Event, Task, Webhook
from crawlservice.security.sealing import SealError, seal, unseal
from crawlservice.webhooks.address import MASK, Address, parsed, restored
from crawlservice.webhooks.deliveries import OUTBOX, give_secret, sample_message

KINDS = [
    (Event.Kind.FINISHED, _("finished, with or without errors")),
    (Task.Outcome.FINISHED_WITH_ERRORS, _("finished with errors")),
    (Event.Kind.FAILED, _("failed")),
    (Event.Kind.CANCELLED, _("cancelled")),
    (Event.Kind.SCHEDULE_FAILED, _("a schedule cannot start")),
    (Event.Kind.NODE_OFFLINE, _("node offline")),
    (Event.Kind.NODE_BACK, _("node back")),
    (Event.Kind.HOST_HELD, _("a host is held")),
    (Event.Kind.HOST_RESUMED, _("host resumed")),
    (Event.Kind.QUALITY_FAILED, _("quality failed")),
    (Event.Kind.PAGES_FOUND, _("a watch has found pages")),
    (Event.Kind.PAGE_GONE, _("a watched page is gone")),
]


class WebhookForm(forms.ModelForm):
    kinds = forms.MultipleChoiceField(
        label=_("Kinds of events"),
        choices=KINDS,
        required=False,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        help_text=_("Select none for all kinds."),
    )

    def clean_url(self) -> str:
        """The address without user, password and query, which are never shown again."""
        given = parsed(self.cleaned_data["url"])
        if urlsplit(given.url).scheme not in ("http", "https"):
            raise forms.ValidationError(_("Enter an address that starts with https:// or http://."))
        if MASK in (given.login, given.query):
            given = self._restored(given)
        self.instance.sealed_login = seal(given.secret)
        return given.shown

    def _restored(self, given: Address) -> Address:
        """The address with the stored values in place of its masks. They are sent to no other
        host."""
        before = parsed(self.initial.get("url", ""))
        if _origin(given.url) != _origin(before.url):
            raise forms.ValidationError(
                _("The host has changed: enter user, password and query again.")
            )
        try:
            found = restored(given.shown, unseal(self.instance.sealed_login))
        except SealError as error:
            raise forms.ValidationError(str(error)) from None
        if (given.login and not found.login) or (given.query and not found.query):
            raise forms.ValidationError(
                _("*** stands for nothing that is stored: enter user, password and query again.")
            )
        return found


def _origin(url: str) -> tuple[str, str]:
    return urlsplit(url)[:2]


@admin.register(Webhook)
class WebhookAdmin(Owner, Journaled):
    """The secret is shown once, when it is made."""

    journal_noun = "webhook"
    form = WebhookForm
    list_display = ("name", "url", "wants", "enabled", "waiting", "last_problem", "deliveries")
    actions = ("send_test", "renew_secret")
    actions_submit_line = ("save_and_test",)
    fields = ("name", "url", "spider", "kinds", "enabled", "shown_secret")
    readonly_fields = ("shown_secret",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Webhook]:
        own = Delivery.objects.filter(webhook=OuterRef("pk")).order_by()
        open_ = own.filter(next_at__isnull=False).values("webhook").annotate(n=Count("pk"))
        last = own.filter(delivered_at=None).order_by("-pk").values("problem")
        rows: QuerySet[Webhook] = super().get_queryset(request)
        return rows.annotate(
            waiting_count=Coalesce(Subquery(open_.values("n")), 0), problem=Subquery(last[:1])
        )

    def formfield_for_dbfield(
        self, db_field: models.Field[Any, Any], request: HttpRequest, **kwargs: Any
    ) -> Any:
        if db_field.name == "url":
            kwargs["assume_scheme"] = "https"
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: Webhook, form: Any, change: bool) -> None:
        if not change:
            give_secret(obj)
        super().save_model(request, obj, form, change)
        verb = "change webhook" if change else "add webhook"
        record(verb, **by(request), webhook=obj.name, fields=form.changed_data)

    def response_add(
        self, request: HttpRequest, obj: Webhook, post_url_continue: str | None = None
    ) -> HttpResponse:
        return self._show_secret(request, obj)

    @admin.display(description=_("events"))
    def wants(self, webhook: Webhook) -> str:
        labels = dict(KINDS)
        kinds = ", ".join(str(labels.get(kind, kind)) for kind in webhook.kinds) or gettext("all")
        return f"{kinds} ({webhook.spider})" if webhook.spider else kinds

    waiting = column(lambda webhook: f"{webhook.waiting_count:,}", _("waiting"))
    last_problem = column(lambda webhook: webhook.problem or "-", _("last problem"))

    deliveries = column(
        lambda pk: page_link(_("deliveries"), "delivery_changelist", webhook__id__exact=pk),
        *("", "pk"),
    )

    @admin.display(description=_("secret"))
    def shown_secret(self, webhook: Webhook) -> str:
        if not webhook.pk:
            return str(_("generated on saving, and shown once"))
        return str(_("stored encrypted; it was shown when it was generated"))

    def _show_secret(self, request: HttpRequest, webhook: Webhook) -> HttpResponse:
        title = _("Secret of the webhook {name}").format(name=webhook.name)
        return secret_page(request, title, unseal(webhook.sealed_secret), place_of(webhook))

    @admin.action(description=_("Send a test"), permissions=["change"])
    def send_test(self, request: HttpRequest, chosen: QuerySet[Webhook]) -> None:
        for webhook in chosen[:5]:  # each may take 10 s
            self._test(request, webhook)

    @action(description=_("Save and send a test"), permissions=["change"])
    def save_and_test(self, request: HttpRequest, webhook: Webhook) -> None:
        # After the form's transaction: a test may take 10 s.
        transaction.on_commit(lambda: self._test(request, webhook))

    @admin.action(description=_("Make a new secret"), permissions=["change"])
    def renew_secret(self, request: HttpRequest, chosen: QuerySet[Webhook]) -> HttpResponse | None:
        webhooks = list(chosen[:2])
        if len(webhooks) != 1:
            self.message_user(request, _("Select exactly one webhook."), messages.ERROR)
            return None
        webhook = webhooks[0]
        give_secret(webhook)
        webhook.save(update_fields=["sealed_secret"])
        record("renew webhook secret", **by(request), webhook=webhook.name)
        return self._show_secret(request, webhook)

    def _test(self, request: HttpRequest, webhook: Webhook) -> None:
        # Imported here: nothing else in the web sends webhooks.
        from crawlservice.webhooks.sender import send_now

        try:
            problem = send_now(settings.CRAWLFRAME, sample_message(webhook))
        except SealError as error:
            problem = str(error)
        record("test webhook", **by(request), webhook=webhook.name, problem=problem)
        if problem:
            self.message_user(request, f"{webhook}: {problem}", messages.ERROR)
        else:
            text = _("%(webhook)s accepted the test") % {"webhook": webhook}
            self.message_user(request, text, messages.SUCCESS)


@admin.register(Delivery)
class DeliveryAdmin(OutboxRows):
    outbox = OUTBOX
    steers = "crawlservice.change_webhook"
    list_display = (
        "id", "webhook", "kind", "shown_task", "state", "attempts", "next_try", "delivered",
        "problem",
    )  # fmt: skip
    list_filter = (outbox_filter(OUTBOX), "webhook")
    list_select_related = ("webhook", "event")
    fields = (
        "webhook", "kind", "shown_task", "state", "attempts", "next_try", "delivered", "problem",
    )  # fmt: skip

    def resend(self, row: Delivery) -> dict[str, Any]:
        OUTBOX.send_again(row)
        return {"verb": "send again", "webhook": row.webhook.name, "delivery": row.pk}

    @admin.display(description=_("event"))
    def kind(self, delivery: Delivery) -> str:
        return f"evt_{delivery.event_id}: {delivery.event.get_kind_display()}"

    shown_task = column(task_link, _("task"), "event.task_id")
    delivered = column(moment, _("delivered"), "delivered_at")
