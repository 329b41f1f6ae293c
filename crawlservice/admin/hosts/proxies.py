"""The pool of proxies in the admin, and the lists that it is filled from. Credentials are entered
and never shown."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.timezone import localtime
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from redis import RedisError

from crawlframe.base.secret import MASK
from crawlframe.errors import CrawlframeError
from crawlservice.accounts.journal import by, record
from crawlservice.admin.parts.fields import secret, text
from crawlservice.admin.parts.lookups import (
    DeclaredList,
    DeclaredLookups,
    Journaled,
    with_facts,
)
from crawlservice.connections import clock
from crawlservice.display import page_link
from crawlservice.models import Proxy, ProxySource
from crawlservice.proxies.entry import BadProxy, Entry, check_fields, read_entry
from crawlservice.proxies.runs import begin
from crawlservice.proxies.sources import BadSource, check_every, sealed_place
from crawlservice.proxies.use import hosts_of, lasts, problems
from crawlservice.security.sealing import unseal


def _checked(cleaned: dict[str, Any]) -> dict[str, Any]:
    """Raises BadProxy."""
    given = {name: cleaned[name] for name in ("tier", "country", "max_concurrency")}
    return check_fields(tags=cleaned["tags"].split(), **given)


class ProxyForm(forms.ModelForm):
    """The login is entered, and again when it would be sent to another server."""

    login = secret(_("User and password"))

    class Meta:
        model = Proxy
        fields = ("url", "tier", "tags", "country", "max_concurrency", "enabled")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._entry: Entry | None = None
        self._has = bool(self.instance.sealed_login)
        self.fields["login"].help_text = (
            _("Stored encrypted; empty: unchanged.") if self._has else _("such as user:password")
        )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        login = cleaned.get("login", "")
        if login == MASK:
            self.add_error("login", _("This is a mask. Enter the user and the password."))
            return cleaned
        if not login and self._has:
            if cleaned["url"] != self.initial.get("url"):
                text = _("Enter it again: this change would send it to another server.")
                self.add_error("login", text)
                return cleaned
            login = unseal(self.instance.sealed_login)
        user, _colon, password = login.partition(":")
        try:
            plain = read_entry(cleaned["url"])
            if plain.user:
                raise BadProxy("url", str(_("enter the credentials in the other field")))
            fields = _checked(cleaned)
        except BadProxy as error:
            self.add_error(error.field if error.field in self.fields else None, str(error))
            return cleaned
        self._entry = Entry(plain.url, user, password, **fields)
        if Proxy.objects.filter(key=self._entry.key).exclude(pk=self.instance.pk).exists():
            self.add_error("url", _("It is in the pool already."))
        return cleaned | fields | {"url": plain.url}

    def save(self, commit: bool = True) -> Proxy:
        assert self._entry is not None
        row: Proxy = self.instance
        row.key = self._entry.key
        if self.cleaned_data.get("login") or not row.pk:
            row.sealed_login = self._entry.sealed_login
        if {"url", "login"} & {*self.changed_data}:
            row.state, row.check_at = Proxy.State.NEW, None
        saved: Proxy = super().save(commit)
        return saved


def _add_problems(request: HttpRequest, rows: list[Any]) -> None:
    known = problems(rows)
    for row in rows:
        row.trouble = known[row.pk]


@admin.register(Proxy)
class ProxyAdmin(Journaled, DeclaredLookups):
    form = ProxyForm
    list_display = (
        "url", "has_login", "tier", "tags", "country", "max_concurrency", "enabled", "state",
        "latency_ms", "checked_at", "trouble",
    )  # fmt: skip
    list_filter = ("state", "enabled", "tier", "country", "source")
    list_per_page = 100
    search_fields = ("url", "tags", "source__name")
    fields = (
        "url", "login", "tier", "tags", "country", "max_concurrency", "enabled", "source", "state",
        "latency_ms", "failures", "checked_at", "check_at", "trouble", "changed_at", "hosts",
    )  # fmt: skip
    readonly_fields = fields[7:]
    changelist = with_facts(_add_problems, DeclaredList)

    @admin.display(description=_("problem"))
    def trouble(self, row: Proxy) -> str | None:
        """Its problem at the last check, or in the last requests that used it."""
        found: str = row.trouble if hasattr(row, "trouble") else problems([row])[row.pk]
        return found or None

    @admin.display(description=_("hosts"))
    def hosts(self, row: Proxy) -> SafeString | str:
        """The hosts where it was used within a day, with the reason and end of a rest there."""
        try:
            found, now = hosts_of(row.pk), clock.now().timestamp()
        except (RedisError, CrawlframeError):
            return str(_("Redis does not answer"))
        lines = []
        for host, use, state in found:
            rests = lasts(state.resting_until, now) if state else None
            until = ""
            if state and rests:
                word = (
                    gettext("blocked until") if state.why == "blocked" else gettext("rests until")
                )
                until = f", {word} {localtime(rests):%Y-%m-%d %H:%M:%S}"
            errors = ngettext("%(n)d error", "%(n)d errors", use.errors) % {"n": use.errors}
            lines.append((page_link(host.name, "host_change", host.pk), errors, until))
        return format_html_join(mark_safe("<br>"), "{}: {}{}", lines) or "–"

    actions = ("check_again", "enable", "disable")

    @admin.display(description=_("login"), boolean=True)
    def has_login(self, row: Proxy) -> bool:
        return bool(row.sealed_login)

    @admin.action(description=_("Check again before it is used"), permissions=["change"])
    def check_again(self, request: HttpRequest, queryset: QuerySet[Proxy]) -> None:
        self._apply(request, queryset, "check", state=Proxy.State.NEW, check_at=None)

    @admin.action(description=_("Enable"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: QuerySet[Proxy]) -> None:
        self._apply(request, queryset, "change", enabled=True)

    @admin.action(description=_("Disable"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: QuerySet[Proxy]) -> None:
        self._apply(request, queryset, "change", enabled=False)

    def _apply(
        self, request: HttpRequest, queryset: QuerySet[Proxy], verb: str, **fields: Any
    ) -> None:
        number = queryset.update(**fields)
        shown: dict[str, Any] = {name: str(value) for name, value in fields.items()}
        record(f"{verb} proxies", **by(request), number=number, **shown)
        text = ngettext("%(number)d proxy changed.", "%(number)d proxies changed.", number)
        messages.success(request, text % {"number": number})


class SourceForm(forms.ModelForm):
    """The address of a list may have a key, and so may the arguments of a spider: they are entered
    and never shown."""

    place = text(_("URL, path or arguments"), attrs={"autocomplete": "off"})

    class Meta:
        model = ProxySource
        fields = (
            "name", "spider", "every", "tier", "tags", "country", "max_concurrency", "enabled",
        )  # fmt: skip

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["place"].help_text = (
            _("Stored encrypted; empty: unchanged.")
            if self.instance.sealed_place
            else _(
                "of a text with one proxy in each line; a path must be absolute. Of a spider: its "
                'arguments as JSON, such as {"country": "de"}, or nothing'
            )
        )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if self.errors:
            return cleaned
        same = self.initial.get("spider", "") == cleaned["spider"]
        before = self.instance.sealed_place if same else ""
        try:
            check_every(cleaned["every"], cleaned["spider"])
            place = cleaned["place"], cleaned["spider"], cleaned["every"]
            self._place = sealed_place(*place, before)
            fields = _checked(cleaned)
        except (BadSource, BadProxy) as error:
            self.add_error(error.field if error.field in self.fields else None, str(error))
            return cleaned
        return cleaned | fields

    def save(self, commit: bool = True) -> ProxySource:
        self.instance.sealed_place = self._place
        if not self.instance.pk or "spider" in self.changed_data:
            begin(self.instance)
        self.instance.next_at = None  # it is read at once
        row: ProxySource = super().save(commit)
        return row


@admin.register(ProxySource)
class ProxySourceAdmin(Journaled, DeclaredLookups):
    form = SourceForm
    list_display = (
        "name", "spider", "every", "tier", "tags", "enabled", "proxies", "read_at", "problem",
    )  # fmt: skip
    actions = ("read_now",)
    fields = (
        "name", "spider", "place", "every", "tier", "tags", "country", "max_concurrency", "enabled",
        "found", "read_at", "next_at", "problem",
    )  # fmt: skip
    readonly_fields = fields[9:]
    search_fields = ("name", "spider")

    @admin.display(description=_("proxies"), ordering="found")
    def proxies(self, row: ProxySource) -> SafeString:
        """With a link to them."""
        return page_link(row.found, "proxy_changelist", source__id__exact=row.pk)

    @admin.action(description=_("Read now"), permissions=["change"])
    def read_now(self, request: HttpRequest, queryset: QuerySet[ProxySource]) -> None:
        """A list whose spider has a schedule of its own is not read."""
        rows = queryset.exclude(every=0)
        names = [*rows.values_list("name", flat=True)]
        others = queryset.count() - len(names)
        rows.update(next_at=None)
        for name in names:
            record("read proxy list", **by(request), name=name)
        if names:
            text = ngettext(
                "%(number)d list is read now.", "%(number)d lists are read now.", len(names)
            )
            messages.success(request, text % {"number": len(names)})
        if others:
            text = ngettext(
                "%(number)d list is not read: its spider has a schedule of its own.",
                "%(number)d lists are not read: their spiders have schedules of their own.",
                others,
            )
            messages.warning(request, text % {"number": others})
