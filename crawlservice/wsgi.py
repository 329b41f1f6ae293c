"""What a web server runs: ``gunicorn crawlservice.wsgi``."""

import os

from django.core.wsgi import get_wsgi_application

from crawlservice import stopping

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
application = get_wsgi_application()
stopping.listen()
