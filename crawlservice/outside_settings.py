"""Django's settings outside of a project: enough for ``help`` and ``startproject``. Nothing is
written and no server is started."""

# The settings of a node; see node_settings.py.
ENGINE_APPS = [
    "crawlservice.apps.CrawlserviceConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
]
INSTALLED_APPS = ENGINE_APPS
