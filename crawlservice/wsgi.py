"""The WSGI application; gunicorn runs it with ``gunicorn -c crawlservice/web/server.py``."""

import os
import sys
from collections.abc import Iterable

from django.core.management.commands.runserver import naiveip_re
from django.core.wsgi import get_wsgi_application

from crawlframe.errors import ConfigError
from crawlservice.api.parts import shutdown
from crawlservice.security import exposure

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")


UNKNOWN = "addresses that are not known here (gunicorn without -c crawlservice/web/server.py)"


def _check() -> None:
    """Refuses unknown ways of starting, which may listen anywhere. Raises ConfigError."""
    runserver = sys.argv[1:2] == ["runserver"]
    if found := exposure.refusal(_of_runserver(sys.argv[2:]) if runserver else [UNKNOWN]):
        raise ConfigError(found)


def _of_runserver(words: Iterable[str]) -> list[str]:
    """The address in runserver's arguments, if there is one; its default is a loopback address."""
    found = (naiveip_re.match(word) for word in words)
    return [match["addr"] for match in found if match and match["addr"]]


if not exposure.is_checked():
    _check()
application = get_wsgi_application()
shutdown.listen()
