"""The Django app of the service."""

from django.apps import AppConfig


class CrawlserviceConfig(AppConfig):
    name = "crawlservice"
    verbose_name = "Crawls"
