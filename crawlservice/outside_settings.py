"""Django's settings outside of a project: enough for ``help`` and ``startproject``. Nothing is
written and no server is started."""

# What a node needs; see node_settings.py.
ENGINE_APPS = [
    "crawlservice.apps.CrawlserviceConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
]
INSTALLED_APPS = ENGINE_APPS
