"""Django's settings of nodes and of most commands: the service's, without the parts of the web. A
node starts twice as fast with them, and its workers are smaller."""

from crawlservice.outside_settings import ENGINE_APPS
from crawlservice.settings import *  # noqa: F403
from crawlservice.settings import APPS

INSTALLED_APPS = [*ENGINE_APPS, *APPS]
MIDDLEWARE = []
# Nodes have no login, but tasks are checked against the roles of their owners.
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
