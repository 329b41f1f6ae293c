"""``migrate``: Django's, with the checks of models and databases alone."""

from __future__ import annotations

from django.core.checks import Tags
from django.core.management.commands import migrate


class Command(migrate.Command):
    """The other checks import the admin and the API, which takes longer than to make all tables;
    ``check`` runs them."""

    requires_system_checks = (Tags.models, Tags.database)
