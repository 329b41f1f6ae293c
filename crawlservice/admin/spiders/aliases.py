"""Rules of aliases in the admin: each makes several URLs one page; with examples and counts."""

from __future__ import annotations

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.read_only import SearchedRows
from crawlservice.aliases.rules import revoke, rule_of
from crawlservice.display import badge, moment
from crawlservice.models import AliasRule

TONES = {
    AliasRule.State.PROPOSED: "warn",
    AliasRule.State.VERIFIED: "good",
    AliasRule.State.REFUTED: "bad",
    AliasRule.State.REVOKED: "muted",
}


def _pairs(pairs: list[list[str]]) -> SafeString | str:
    """Pairs as text: links that a site wrote are not followed from here."""
    return format_html_join(mark_safe("<br>"), "{}<br>&nbsp;= {}", pairs) or "-"


@admin.register(AliasRule)
class AliasRuleAdmin(SearchedRows):
    list_display = (
        "id", "origin", "told", "shown_state", "support", "contradictions", "compared", "problem",
        "created",
    )  # fmt: skip
    list_display_links = ("id", "told")
    list_filter = ("state", "kind")
    search_fields = ("origin",)
    fields = (
        "origin", "told", "shown_state", "problem", "places", "support", "shown_examples",
        "contradictions", "shown_counterexamples", "compared", "fetches", "created", "decided",
    )  # fmt: skip
    actions = ("revoke",)

    @admin.action(
        description=_("Revoke selected rules; they are not learned again"), permissions=["steer"]
    )
    def revoke(self, request: HttpRequest, chosen: QuerySet[AliasRule]) -> None:
        rows = [*chosen.order_by("pk")]
        n = revoke(rows)
        record("revoke aliases", **by(request), rules=[_named(row) for row in rows])
        text = ngettext(
            "{n} rule was revoked; tasks that were submitted before continue to use it",
            "{n} rules were revoked; tasks that were submitted before continue to use them",
            n,
        ).format(n=n)
        self.message_user(request, text, messages.SUCCESS)

    told = column(lambda row: str(rule_of(row)), _("rule"))

    @admin.display(description=_("state"))
    def shown_state(self, row: AliasRule) -> SafeString:
        return badge(row.get_state_display(), TONES[AliasRule.State(row.state)])

    @admin.display(description=_("holds at"))
    def places(self, row: AliasRule) -> SafeString | str:
        """First segment of the path, and names of the query."""
        places = sorted(rule_of(row).places)
        return format_html_join(mark_safe("<br>"), "/{}", [(place,) for place in places]) or "-"

    shown_examples = column(_pairs, _("examples"), "examples")
    shown_counterexamples = column(_pairs, _("counter-examples"), "counterexamples")
    decided = column(moment, _("decided"), "decided_at")


def _named(row: AliasRule) -> str:
    return f"{row.origin}: {rule_of(row)}"
