"""What a web server runs; gunicorn by ``gunicorn -c crawlservice/webserver.py``."""

import os
import sys

from django.core.wsgi import get_wsgi_application

from crawlframe.errors import ConfigError
from crawlservice import exposure, stopping

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")


def _check() -> None:
    """Who starts this by other means than ours may listen anywhere. Raises ConfigError."""
    from django.conf import settings

    key = os.environ.get("CRAWLFRAME_SECRET_KEY", "").strip()
    where = "addresses that are not known here (gunicorn without -c crawlservice/webserver.py)"
    if found := exposure.problem([where], debug=settings.DEBUG, key=key):
        raise ConfigError(found)


if not exposure.is_checked() and "runserver" not in sys.argv:
    _check()
application = get_wsgi_application()
stopping.listen()
