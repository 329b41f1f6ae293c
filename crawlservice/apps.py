"""The Django app of the service."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class CrawlserviceConfig(AppConfig):
    name = "crawlservice"
    verbose_name = _("Crawls")

    def ready(self) -> None:
        from django.db.models.signals import post_migrate

        from crawlservice.accounts.roles import make_groups

        post_migrate.connect(make_groups, sender=self)
