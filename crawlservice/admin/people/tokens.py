"""Tokens in the admin: users see their own, managers of users see all."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminRadioSelectWidget

from crawlservice.accounts import journal, tokens
from crawlservice.admin.parts.fields import whole
from crawlservice.admin.parts.lookups import DeclaredLookups, column
from crawlservice.admin.parts.pages import secret_page
from crawlservice.display import badge
from crawlservice.models import Token

SCOPES = [
    (Token.Scope.READ, _("read: view only")),
    (Token.Scope.SUBMIT, _("submit: submits tasks, and controls your own")),
    (Token.Scope.OPERATE, _("operate: controls all tasks that you may control")),
]
STATES = {
    "valid": (_("valid"), "good"),
    "revoked": (_("revoked"), "bad"),
    "expired": (_("expired"), "warn"),
    "inactive": (_("inactive"), "warn"),
}


class NewToken(forms.ModelForm):
    """The name, scope and days of a new token."""

    scope = forms.ChoiceField(
        label=_("Scope"), choices=SCOPES, initial="read", widget=UnfoldAdminRadioSelectWidget
    )
    days = whole(
        *(_("Days"), _("until it expires")),
        required=True,
        min_value=1,
        max_value=tokens.MAX_DAYS,
        initial=tokens.DAYS,
    )

    class Meta:
        model = Token
        fields = ("name",)


@admin.register(Token)
class TokenAdmin(DeclaredLookups):
    """A token cannot be changed, only made, shown once, and revoked."""

    list_display = (
        "name", "begins", "user", "scope", "shown_state", "created_at", "expires_at", "used_at",
    )  # fmt: skip
    list_select_related = ("user",)
    list_per_page = 50
    search_fields = ("name", "start")
    actions = ("revoke",)
    fields = (
        "name", "begins", "user", "scope", "shown_state", "created_at", "expires_at", "used_at",
        "revoked_at",
    )  # fmt: skip

    def get_queryset(self, request: HttpRequest) -> QuerySet[Token]:
        rows: QuerySet[Token] = super().get_queryset(request)
        return (
            rows if request.user.has_perm("auth.change_user") else rows.filter(user=request.user.pk)
        )

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_form(
        self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any
    ) -> Any:
        return super().get_form(
            request, obj, change, **({} if change else {"form": NewToken}), **kwargs
        )

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ("name", "scope", "days")

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj else ()

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        """One save button for a new token, whose next page shows it; none for an existing token."""
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        context["show_save"] = context["original"] is None
        page: HttpResponse = super().render_change_form(request, context, *args, **kwargs)
        return page

    def save_model(self, request: HttpRequest, obj: Token, form: Any, change: bool) -> None:
        if change:
            return
        given = form.cleaned_data
        token, secret = tokens.make(_user(request), given["name"], given["scope"], given["days"])
        obj.pk, obj.secret = token.pk, secret  # type: ignore[attr-defined]
        journal.record("add token", token=token, name=token.name, **journal.by(request))

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Does nothing: the journal records it."""

    def response_add(
        self, request: HttpRequest, obj: Token, post_url_continue: Any = None
    ) -> HttpResponse:
        """The only page that shows the token; neither server nor browser stores it."""
        address = request.build_absolute_uri(reverse("api:list_tasks"))
        return secret_page(
            *(request, _("The new token {name}").format(name=obj.name)),
            *(obj.secret, reverse("admin:crawlservice_token_changelist")),  # type: ignore[attr-defined]
            note=_("A program sends it with each request:"),
            example=f'curl -H "Authorization: Bearer $TOKEN" {address}',
        )

    @admin.action(description=_("Revoke"), permissions=["change"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Token]) -> None:
        found = list(queryset.filter(revoked_at=None))
        tokens.revoke(queryset)
        for token in found:
            journal.record("revoke token", token=token, name=token.name, **journal.by(request))
        done = ngettext("%d token revoked", "%d tokens revoked", len(found)) % len(found)
        messages.success(request, done)

    begins = column(lambda token: f"{token.start}…", _("token"))

    @admin.display(description=_("scope"))
    def scope(self, token: Token) -> str:
        labels = dict(Token.Scope.choices)
        return ", ".join(str(labels.get(scope, scope)) for scope in token.scopes)

    shown_state = column(lambda token: badge(*STATES[tokens.state(token)]), _("state"))


def _user(request: HttpRequest) -> User:
    """The logged-in user; the admin requires one."""
    assert isinstance(request.user, User)
    return request.user
