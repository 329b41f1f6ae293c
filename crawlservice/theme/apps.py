"""The Django app of the admin; a node does without it."""

from django.contrib.admin.apps import SimpleAdminConfig
from django.utils.translation import gettext_lazy as _


class AdminConfig(SimpleAdminConfig):
    """The admin, on a site of our own."""

    default_site = "crawlservice.theme.admin_site.AdminSite"

    def ready(self) -> None:
        from django.apps import apps

        # One listens to login signals, the other checks settings.
        from crawlservice.accounts import logins, proxies  # noqa: F401

        # The admin's name for Django's Authentication and Authorization.
        apps.get_app_config("auth").verbose_name = _("People")
