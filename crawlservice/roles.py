"""Roles: groups of permissions, and who may do what to a task."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractUser, AnonymousUser

from crawlservice.models import Task

User = AbstractUser | AnonymousUser

LOOKED_AT = ("task", "page", "item", "generation", "era", "event", "schedule", "run")
VIEWER = tuple(f"view_{name}" for name in LOOKED_AT)
SUBMITTER = (*VIEWER, "submit_task", *(f"{verb}_token" for verb in ("add", "view", "change")))
OPERATOR = (
    *SUBMITTER,
    "steer_task",
    *(f"{verb}_schedule" for verb in ("add", "change", "delete")),
    "view_webhook",
    "view_delivery",
    "view_action",
)
ADMINISTRATOR = (
    *OPERATOR,
    *(f"{verb}_{name}" for name in ("webhook", "user") for verb in ("add", "change", "delete")),
    "view_user",
    "view_group",
    "delete_task",
)
ROLES = {
    "viewer": VIEWER,
    "submitter": SUBMITTER,
    "operator": OPERATOR,
    "administrator": ADMINISTRATOR,
}


def make_groups(app_config: Any, **options: Any) -> None:
    """After migrations: each role is a group with its permissions. Others are left alone."""
    from django.apps import apps
    from django.contrib.auth.management import create_permissions
    from django.contrib.auth.models import Group, Permission

    using = options.get("using", "default")
    for app in APPS:
        create_permissions(apps.get_app_config(app), verbosity=0, using=using)
    known = Permission.objects.using(using).filter(content_type__app_label__in=APPS)
    by_name = {permission.codename: permission for permission in known}
    for role, permissions in ROLES.items():
        group, _ = Group.objects.using(using).get_or_create(name=role)
        group.permissions.set([by_name[name] for name in permissions if name in by_name])


APPS = ("crawlservice", "auth")


def may_submit(user: User) -> bool:
    return user.has_perm("crawlservice.submit_task")


def may_steer(user: User, task: Task) -> bool:
    """Pause, resume, cancel and retry: operators any task, submitters those of their own."""
    if user.has_perm("crawlservice.steer_task"):
        return True
    return may_submit(user) and task.user_id is not None and task.user_id == user.pk
