"""The journal in the admin, read-only: user, action, time and address."""

from __future__ import annotations

from datetime import datetime, time
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.forms import DateField, ValidationError
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.timezone import make_aware
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import RangeDateFilter

from crawlservice.admin.parts.filters import RECENT_ROWS, filter_by
from crawlservice.admin.parts.lookups import column
from crawlservice.admin.parts.read_only import ReadOnly
from crawlservice.display import moment, readable
from crawlservice.models import Action
from crawlservice.templatetags.crawls import WHO, pairs, register

VERBS = {
    "accept quality": _("accept quality"),
    "acknowledge": _("acknowledge"),
    "add": _("add"),
    "begin": _("begin"),
    "cancel": _("cancel"),
    "change": _("change"),
    "check": _("check"),
    "change labels": _("change labels"),
    "change limits": _("change limits"),
    "change password": _("change password"),
    "clear": _("clear the order of"),
    "create": _("create"),
    "delete": _("delete"),
    "disable": _("disable"),
    "import": _("import"),
    "enable": _("enable"),
    "end": _("end"),
    "export": _("export"),
    "export pages": _("export of pages"),
    "export layers": _("export of layers"),
    "forget node": _("forget node"),
    "accept version": _("accept version"),
    "refuse version": _("refuse version"),
    "preview": _("order a preview"),
    "forget rendering": _("forget which pages need the browser"),
    "forget robots": _("forget robots.txt"),
    "learn aliases": _("learn rules of aliases"),
    "revoke aliases": _("revoke rules of aliases"),
    "forget aliases": _("forget rules of aliases"),
    "forget unreadable rows": _("forget unreadable rows"),
    "locked out": _("locked out"),
    "login": _("login"),
    "login failed": _("login failed"),
    "logout": _("logout"),
    "make setup link": _("make setup link"),
    "order": _("set limits of"),
    "pause": _("pause"),
    "prune": _("prune"),
    "prune files": _("prune files"),
    "reconcile": _("reconcile"),
    "renew installation": _("renew installation"),
    "renew webhook secret": _("renew webhook secret"),
    "restart": _("restart"),
    "resume": _("resume"),
    "retry": _("retry"),
    "retry errors": _("retry errors"),
    "revoke": _("revoke"),
    "reopen": _("reopen"),
    "reseal": _("reseal"),
    "restore": _("restore"),
    "retire": _("retire"),
    "read": _("read"),
    "reparse": _("parse again"),
    "rotate": _("rotate"),
    "rollout": _("rollout"),
    "run": _("run"),
    "send again": _("send again"),
    "send rows again": _("send rows again"),
    "drop rows": _("drop rows"),
    "save": _("save"),
    "send again alert message": _("send alert message again"),
    "setup": _("setup"),
    "silence": _("silence"),
    "stop": _("stop"),
    "submit": _("submit"),
    "view page": _("look at a kept page"),
    "download page": _("download a kept page"),
    "try page": _("try a kept page"),
    "take over redis": _("take over Redis"),
    "test": _("test"),
    "visit now": _("visit now"),
}
THINGS = {
    "alert": _("alert"),
    "alert target": _("alert target"),
    "alertrule": _("alert rule"),
    "alerttarget": _("alert target"),
    "credential": _("credential"),
    "export": _("continuous export"),
    "group": _("role"),
    "host": _("host"),
    "hostcredential": _("credential"),
    "key": _("key"),
    "proxies": _("proxies"),
    "proxy": _("proxy"),
    "proxy list": _("proxy list"),
    "proxysource": _("proxy list"),
    "recipe": _("recipe"),
    "retry": _("retry"),
    "schedule": _("schedule"),
    "spider": _("spider"),
    "task": _("task"),
    "token": _("token"),
    "user": _("user"),
    "watch": _("watch"),
    "webhook": _("webhook"),
}
USERS = 100  # users offered as choices; ?user=7 accepts any


@register.filter("verb")
def verb_text(verb: str) -> str:
    """The action in the reader's language: "login", or "add" with its object."""
    words = verb.replace("_", " ")
    if words in VERBS:
        return str(VERBS[words])
    what, _space, thing = words.partition(" ")
    if what in VERBS and thing in THINGS:
        return gettext("{verb} {thing}").format(verb=VERBS[what], thing=THINGS[thing])
    return words


def _recent_verbs() -> list[tuple[str, str]]:
    """Verbs of the latest actions."""
    latest = Action.objects.order_by("-id").values_list("verb", flat=True)[:RECENT_ROWS]
    return [(verb, verb_text(verb)) for verb in sorted(set(latest))]


def _users() -> list[tuple[str, Any]]:
    users = User.objects.order_by("username").values_list("pk", "username")[:USERS]
    return [(str(pk), name) for pk, name in users] + [("0", _("no user: commands, schedules"))]


def _of_user(rows: QuerySet[Any], user: str) -> QuerySet[Any]:
    if not user.isdecimal():
        return rows.none()
    return rows.filter(user=user) if int(user) else rows.filter(name="")


RecentVerb = filter_by(
    *(_("action"), "verb", _recent_verbs), lambda rows, verb: rows.filter(verb=verb)
)
ByUser = filter_by(_("user"), "user", _users, _of_user)


class Days(RangeDateFilter):
    """Filter from the start of one day to the end of another."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        first, last = self._moment("from", time.min), self._moment("to", time.max)
        if first:
            queryset = queryset.filter(at__gte=first)
        return queryset.filter(at__lte=last) if last else queryset

    def _moment(self, end: str, of_day: time) -> datetime | None:
        text = self.used_parameters.get(f"{self.parameter_name}_{end}", "")
        try:
            day = DateField(required=False).clean(text)  # in the format of the user's language
        except ValidationError:
            return None
        return make_aware(datetime.combine(day, of_day)) if day else None


@admin.register(Action)
class ActionAdmin(ReadOnly):
    list_display = ("id", "shown_at", "who", "shown_verb", "task_number", "address", "short")
    list_display_links = ("id",)
    list_filter = (RecentVerb, ByUser, ("at", Days))
    list_filter_submit = True  # the range of days needs a submit button
    fields = ("at", "who", "shown_verb", "task_number", "token", "address", "shown_detail")

    shown_at = column(moment, _("time"), "at")

    @admin.display(description=_("user"))
    def who(self, action: Action) -> str:
        if action.name:
            return action.name
        if action.detail.get("by_itself"):
            return str(_("a schedule"))
        return str(_("a command")) if action.detail.get("command") else "-"

    shown_verb = column(verb_text, _("action"), "verb")

    short = column(lambda detail: Truncator(pairs(detail)).chars(120) or "-", _("detail"), "detail")

    @admin.display(description=_("detail"))
    def shown_detail(self, action: Action) -> SafeString:
        return readable({key: value for key, value in action.detail.items() if key not in WHO})
