"""The Django app of the service."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig
from django.utils.translation import gettext_lazy as _


class CrawlserviceConfig(AppConfig):
    name = "crawlservice"
    verbose_name = _("Crawls")

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from crawlservice.accounts.roles import make_groups

        post_migrate.connect(make_groups, sender=self)


class AdminConfig(SimpleAdminConfig):
    """The admin, on a site of our own."""

    default_site = "crawlservice.theme.admin_site.AdminSite"

    def ready(self) -> None:
        from django.apps import apps

        # One listens to login signals, the other checks settings.
        from crawlservice.accounts import logins, proxies  # noqa: F401

        # The admin's name for what Django calls Authentication and Authorization.
        apps.get_app_config("auth").verbose_name = _("People")
