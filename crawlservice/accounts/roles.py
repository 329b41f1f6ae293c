"""Roles: groups of permissions, and the rights of users over a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import router
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from crawlservice.models import Task, Watch

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

User = AbstractUser | AnonymousUser
SUPERUSER = "superuser"  # no group: Django's own

LOOKED_AT = (
    "task", "page", "item", "generation", "era", "event", "schedule", "run", "host", "robotsfile",
    "recipe", "recipeversion", "alert", "keptpage", "watch", "aliasrule", "previewreport", "case",
)  # fmt: skip
VIEWER = tuple(f"view_{name}" for name in LOOKED_AT)
SUBMITTER = (*VIEWER, "submit_task", *(f"{verb}_token" for verb in ("add", "view", "change")))
OPERATOR = (
    *SUBMITTER,
    "steer_task",
    "forget_generation",
    "handle_alert",
    "handle_case",
    *(
        f"{verb}_{name}"
        for name in ("schedule", "recipe", "alertrule")
        for verb in ("add", "change", "delete")
    ),
    *(f"view_{name}" for name in ("alertrule", "alerttarget", "alertmessage")),
    "view_webhook",
    "view_export",
    "view_delivery",
    "view_rowdelivery",
    "view_action",
    "view_proxy",
    "view_proxysource",
    "add_previewreport",
    "view_pagebody",  # the contents of kept pages, which may hold data of persons
)
ADMINISTRATOR = (
    *OPERATOR,
    *(
        f"{verb}_{name}"
        for name in ("webhook", "alerttarget", "export", "proxy", "proxysource", "user")
        for verb in ("add", "change", "delete")
    ),
    "view_user",
    "view_group",
    "delete_task",
)
# A group in addition to the roles: whoever is in it also edits the credentials of hosts.
KEEPER = "credentials"
KEEPING = tuple(f"{verb}_hostcredential" for verb in ("view", "add", "change", "delete"))
ROLES = {
    "viewer": VIEWER,
    "submitter": SUBMITTER,
    "operator": OPERATOR,
    "administrator": ADMINISTRATOR,
}
NAMES: dict[str, _StrPromise] = {
    "viewer": _("viewer"),
    "submitter": _("submitter"),
    "operator": _("operator"),
    "administrator": _("administrator"),
    SUPERUSER: _("superuser"),
    KEEPER: _("keeper of credentials"),
}
TOLD: dict[str, _StrPromise] = {
    "": _("none: cannot log in"),
    "viewer": _("viewer: sees everything except people and the contents of kept pages"),
    "submitter": _("submitter: also submits tasks, and controls their own"),
    "operator": _(
        "operator: also controls all tasks and hosts, manages schedules, recipes and rules of "
        "alerts, reads the journal, sees the contents of kept pages"
    ),
    "administrator": _(
        "administrator: also manages users, webhooks, exports, proxies and alert targets, deletes "
        "tasks"
    ),
    SUPERUSER: _("superuser: everything"),
}


def make_groups(app_config: Any, **options: Any) -> None:
    """Creates the group of each role with its permissions, after migrations. Other groups stay."""
    from django.apps import apps
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group, Permission

    using = options.get("using", "default")
    if not router.allow_migrate_model(using, Group):  # a database of the team's apps
        return
    for app in APPS:
        create_permissions(apps.get_app_config(app), verbosity=0, using=using)
    known = Permission.objects.using(using).filter(content_type__app_label__in=APPS)
    by_name = {permission.codename: permission for permission in known}
    for role, permissions in {**ROLES, KEEPER: KEEPING}.items():
        group, _ = Group.objects.using(using).get_or_create(name=role)
        group.permissions.set([by_name[name] for name in permissions if name in by_name])


APPS = ("crawlservice", "auth")
PEOPLE = ("_user", "_group")


def may_submit(user: User) -> bool:
    return user.has_perm("crawlservice.submit_task")


def may_steer(user: User, row: Task | Watch) -> bool:
    """Whether the user may control the task or the watch: operators any, submitters their own."""
    if user.has_perm("crawlservice.steer_task"):
        return True
    return may_submit(user) and row.user_id is not None and row.user_id == user.pk


def role_of(user: AbstractUser) -> str:
    """The user's role with the most rights; "" if there is none."""
    if user.is_superuser:
        return SUPERUSER
    names = {group.name for group in user.groups.all()}
    return next((role for role in reversed(ROLES) if role in names), "")


def give_role(user: AbstractUser, role: str) -> None:
    """Replaces the user's roles by this one; groups that are not roles stay."""
    from django.contrib.auth.models import Group

    user.groups.remove(*user.groups.filter(name__in=set(ROLES) - {role}))
    if role in ROLES:
        user.groups.add(Group.objects.get(name=role))
    user.is_superuser = role == SUPERUSER
    user.is_staff = bool(role) or user.groups.exists()
    user.save(update_fields=["is_superuser", "is_staff"])


def is_keeper(user: AbstractUser) -> bool:
    """Whether the user edits the credentials of hosts in addition to what the role allows."""
    return any(group.name == KEEPER for group in user.groups.all())


def make_keeper(user: AbstractUser, keeps: bool) -> None:
    """Lets the user edit the credentials of hosts, or no longer."""
    from django.contrib.auth.models import Group

    group = Group.objects.get(name=KEEPER)
    (user.groups.add if keeps else user.groups.remove)(group)
    user.is_staff = bool(role_of(user)) or user.groups.exists()
    user.save(update_fields=["is_staff"])


def may_give(giver: User, role: str) -> bool:
    """Whether the giver may give this role: users only give rights that they have."""
    if giver.is_superuser:
        return True
    return role != SUPERUSER and _named(ROLES.get(role, ())) <= giver.get_all_permissions()


def may_change(changer: User, user: AbstractUser) -> bool:
    """Whether the changer has all rights of the user: changing a user includes setting the
    password. The rights of an inactive user count, because the user may be activated."""
    from django.contrib.auth.models import Permission

    if changer.is_superuser:
        return True
    rows = Permission.objects.filter(Q(user=user) | Q(group__user=user))
    rights = {
        f"{app}.{name}" for app, name in rows.values_list("content_type__app_label", "codename")
    }
    return not user.is_superuser and rights <= changer.get_all_permissions()


def _named(permissions: tuple[str, ...]) -> set[str]:
    return {f"{'auth' if name.endswith(PEOPLE) else 'crawlservice'}.{name}" for name in permissions}
