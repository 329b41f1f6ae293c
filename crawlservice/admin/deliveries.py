"""Deliveries in the admin: what was sent to webhooks, and what did not arrive."""

from __future__ import annotations

from typing import ClassVar

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from crawlservice.accounts.journal import by, record
from crawlservice.admin.readonly import ReadOnly
from crawlservice.admin.statefilter import StateFilter
from crawlservice.display import badge, moment, task_link
from crawlservice.models import Delivery
from crawlservice.webhooks.deliveries import send_again


class DeliveryState(StateFilter):
    states: ClassVar = {
        "waiting": (_("waiting"), Q(delivered_at=None, next_at__isnull=False)),
        "arrived": (_("arrived"), Q(delivered_at__isnull=False)),
        "given up": (_("given up"), Q(delivered_at=None, next_at=None)),
    }


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly):
    list_display = (
        "id", "webhook", "kind", "shown_task", "state", "attempts", "next_try", "delivered",
        "problem",
    )  # fmt: skip
    list_filter = (DeliveryState, "webhook")
    list_select_related = ("webhook", "event")
    fields = (
        "webhook", "kind", "shown_task", "state", "attempts", "next_try", "delivered", "problem",
    )  # fmt: skip
    actions = ("send_again",)

    def has_send_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("crawlservice.change_webhook")

    @admin.display(description=_("event"))
    def kind(self, delivery: Delivery) -> str:
        return f"evt_{delivery.event_id}: {delivery.event.get_kind_display()}"

    @admin.display(description=_("task"))
    def shown_task(self, delivery: Delivery) -> SafeString | str:
        return task_link(delivery.event.task_id)

    @admin.display(description=_("state"))
    def state(self, delivery: Delivery) -> SafeString:
        if delivery.delivered_at is not None:
            return badge(_("arrived"), "good")
        if delivery.next_at is None:
            return badge(_("given up"), "bad")
        if delivery.problem:
            return badge(_("retrying"), "warn")
        return badge(_("waiting"), "muted")

    @admin.display(description=_("next attempt"))
    def next_try(self, delivery: Delivery) -> SafeString | str:
        return moment(delivery.next_at)

    @admin.display(description=_("delivered"))
    def delivered(self, delivery: Delivery) -> SafeString | str:
        return moment(delivery.delivered_at)

    @admin.action(description=_("Send again"), permissions=["send"])
    def send_again(self, request: HttpRequest, chosen: QuerySet[Delivery]) -> None:
        sent = 0
        for delivery in chosen.select_related("webhook"):
            send_again(delivery)
            record("send again", **by(request), webhook=delivery.webhook.name, delivery=delivery.pk)
            sent += 1
        self.message_user(request, _("deliveries to be sent again: %d") % sent, messages.SUCCESS)
