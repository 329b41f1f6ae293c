"""Django's settings, all from the environment and the project's .env file; docs/settings.md lists
the variables.

Safe by default: nothing but loopback is served, DEBUG is off, the secret key is generated."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from importlib.util import find_spec
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from csp.constants import NONCE, NONE, SELF

from crawlframe.base import logs
from crawlframe.base.ranks import EVERYDAY, NEEDED, TUNING
from crawlframe.base.storage_url import in_s3
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlservice import project
from crawlservice.connections.database_url import database_config, other_database_config
from crawlservice.outside_settings import ENGINE_APPS
from crawlservice.security.exposure import is_on
from crawlservice.security.secret import private_directory, secret_key
from crawlservice.theme.theme import UNFOLD as UNFOLD

# Default and rank of all variables that are read here, and by web/server.py, which cannot import
# this.
READ = {
    "CRAWLFRAME_BIND": ("127.0.0.1:8000", NEEDED),
    "CRAWLFRAME_WEB_PROCESSES": ("2", NEEDED),
    "CRAWLFRAME_WEB_THREADS": ("16", TUNING),
    project.ENV_FILE: (".env", NEEDED),
}


def _text(variable: str, default: str = "", rank: str = NEEDED) -> str:
    READ[variable] = (default, rank)
    return os.environ.get(variable, "").strip() or default


def _words(variable: str, default: str = "", rank: str = NEEDED) -> list[str]:
    return _text(variable, default, rank).replace(",", " ").split()


def _flag(variable: str) -> bool:
    text = _text(variable, "0").lower()
    if text not in ("0", "1", "no", "yes", "off", "on", "false", "true"):
        raise ConfigError(f"{variable}={text!r} must be 1 or 0")
    return is_on(text)


def _number(
    variable: str, default: int, least: int = 1, most: int = 10**9, rank: str = NEEDED
) -> int:
    text = _text(variable, str(default), rank)
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= most:
        bounds = f"{least} or more" if most == 10**9 else f"{least} to {most}"
        raise ConfigError(f"{variable}={text!r} must be a whole number, {bounds}")
    return int(text)


def _apps(variable: str) -> list[str]:
    """Django apps: ``shop_alerts``, or ``shop_alerts.apps.AlertsConfig``; ``stock@warehouse`` has
    its tables in that one of the other databases."""
    names = _words(variable)
    others = DATABASES.keys() - {"default"}
    for name, at, alias in (word.partition("@") for word in names):
        try:
            found = find_spec(name.split(".")[0]) is not None
        except (ImportError, ValueError):
            found = False
        if not found:
            raise ConfigError(
                f"{variable}: there is no module {name!r} to import; it must be installed, or be "
                "next to manage.py"
            )
        if at and alias not in others:
            raise ConfigError(
                f"{variable}: {name}@{alias} names none of the other databases; "
                f"CRAWLFRAME_DATABASES has {', '.join(sorted(others)) or 'none'}"
            )
    return names


def _databases(variable: str) -> dict[str, Any]:
    """Other databases: ``warehouse=postgresql://user:password@host/name``."""
    found: dict[str, Any] = {}
    for word in _text(variable).split():
        alias, given, url = word.partition("=")
        if not given or not alias.isidentifier() or alias in ("default", "aside", *found):
            raise ConfigError(
                f"{variable} must have words such as warehouse=postgresql://user:password@host/name"
                f", each with another name; {alias.partition('://')[0]!r} begins none"
            )
        name = f"crawlframe {CRAWLFRAME.node}"
        found[alias] = other_database_config(f"{variable}: {alias}", url, name)
    return found


def _one_of(variable: str, words: tuple[str, ...]) -> str:
    text = _text(variable, words[0]).lower()
    if text not in words:
        raise ConfigError(f"{variable}={text!r} must be one of {', '.join(words)}")
    return text


def _networks(variable: str, default: str) -> list[IPv4Network | IPv6Network]:
    try:
        return [ip_network(word) for word in _words(variable, default)]
    except ValueError as error:
        raise ConfigError(f"{variable}: {error}; give networks such as 10.0.0.0/8") from None


PACKAGE = Path(__file__).resolve().parent
BASE_DIR = project.directory()
project.load_environment(BASE_DIR)

CRAWLFRAME = Settings.from_env()
VAR_DIR = BASE_DIR / CRAWLFRAME.var_dir
FILES, PAGES = (
    str(BASE_DIR / place) if place and not in_s3(place) else place
    for place in (CRAWLFRAME.files, CRAWLFRAME.pages)
)
CRAWLFRAME = replace(CRAWLFRAME, var_dir=VAR_DIR, files=FILES, pages=PAGES)
REDIS_URL = _text("REDIS_URL", rank=EVERYDAY)  # "" = the embedded server

private_directory(VAR_DIR)

DEBUG = _flag("CRAWLFRAME_DEBUG")
SECRET_KEY = _text("CRAWLFRAME_SECRET_KEY", rank=EVERYDAY) or secret_key(VAR_DIR)
# Former keys: texts signed or encrypted with them is still read.
SECRET_KEY_FALLBACKS = _words("CRAWLFRAME_SECRET_KEY_FALLBACKS")
EXTRA_HOSTS = _words("CRAWLFRAME_ALLOWED_HOSTS", rank=EVERYDAY)
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", *EXTRA_HOSTS]
if CRAWLFRAME.bot_auth:  # sites ask for the directory of our keys there
    ALLOWED_HOSTS.append(str(urlsplit(CRAWLFRAME.bot_auth).hostname))
CSRF_TRUSTED_ORIGINS = _words("CRAWLFRAME_CSRF_TRUSTED_ORIGINS")

# Exports to local files are written below it.
EXPORT_DIR = BASE_DIR / _text("CRAWLFRAME_EXPORT_DIR", str(VAR_DIR / "exports"))

# Files that arguments of tasks name are below it, unless commands give them. No path is below the
# default.
ARGUMENT_FILES = BASE_DIR / (_text("CRAWLFRAME_ARGUMENT_FILES") or "\0")

PUBLIC_URL = _text("CRAWLFRAME_PUBLIC_URL", rank=EVERYDAY).rstrip("/")  # prefix of links
PROXIES = _number("CRAWLFRAME_PROXIES", 0, least=0)  # in front, with X-Forwarded-For
HTTPS = _flag("CRAWLFRAME_HTTPS")  # behind a proxy that speaks TLS and sets X-Forwarded-Proto
if HTTPS:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]  # asked from inside
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = 365 * 24 * 3600
# Whether other hosts of the domain use TLS is not ours to decide. SQLite ignores the columns that
# an index includes; it is for installations where that hardly matters.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021", "models.W040"]
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_IDLE = _number("CRAWLFRAME_SESSION_IDLE", 8 * 3600, least=0)  # seconds; 0 = no limit
CSRF_FAILURE_VIEW = "crawlservice.web.refusals.form_refused"
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# Mail of alerts. Without a host none is sent.
EMAIL_HOST = _text("CRAWLFRAME_SMTP_HOST")
EMAIL_SECURITY = _one_of("CRAWLFRAME_SMTP_SECURITY", ("starttls", "tls", "none"))
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_SECURITY == "starttls", EMAIL_SECURITY == "tls"
EMAIL_PORT = _number(
    "CRAWLFRAME_SMTP_PORT", {"starttls": 587, "tls": 465, "none": 25}[EMAIL_SECURITY], most=65_535
)
EMAIL_HOST_USER = _text("CRAWLFRAME_SMTP_USER")
EMAIL_HOST_PASSWORD = _text("CRAWLFRAME_SMTP_PASSWORD")
EMAIL_TIMEOUT = 20  # seconds
DEFAULT_FROM_EMAIL = _text("CRAWLFRAME_MAIL_FROM")
if EMAIL_HOST and "@" not in DEFAULT_FROM_EMAIL:
    raise ConfigError(
        "CRAWLFRAME_SMTP_HOST is set, so CRAWLFRAME_MAIL_FROM must name the sender, such as "
        "crawls@example.com"
    )

API_RATE = _number("CRAWLFRAME_API_RATE", 12_000)  # requests of a token in a minute
API_STREAMS = _number("CRAWLFRAME_API_STREAMS", 4, rank=TUNING)  # of events, in each web process
WEB_DEADLINE = _number("CRAWLFRAME_WEB_DEADLINE", 20, most=3600, rank=TUNING)  # seconds
METRICS_ALLOW = _networks("CRAWLFRAME_METRICS_ALLOW", "127.0.0.0/8 ::1")
# Days; 0 = for ever. See pruning.py.
KEEP_RUNS = _number("CRAWLFRAME_KEEP_RUNS", 90, least=0, most=36_500)
KEEP_ROUNDS = _number("CRAWLFRAME_KEEP_ROUNDS", 30, least=0, most=36_500)
KEEP_EVENTS = _number("CRAWLFRAME_KEEP_EVENTS", 30, least=0, most=36_500)
KEEP_NODES = _number("CRAWLFRAME_KEEP_NODES", 7, least=0, most=36_500)
KEEP_JOURNAL = _number("CRAWLFRAME_KEEP_JOURNAL", 365, least=0, most=36_500)
KEEP_FILES = _number("CRAWLFRAME_KEEP_FILES", 1, least=0, most=36_500)
KEEP_PICTURES = _number("CRAWLFRAME_KEEP_PICTURES", 100, least=0, most=10_000)  # of a task and kind
KEEP_PAGES = _number("CRAWLFRAME_KEEP_PAGES", 30, least=0, most=36_500)
KEEP_ERROR_PAGES = _number("CRAWLFRAME_KEEP_ERROR_PAGES", 20, least=1, most=10_000)  # of a reason
KEEP_PAGES_SIZE = _number("CRAWLFRAME_KEEP_PAGES_SIZE", 10_240, least=0, most=1 << 30)  # MiB
KEEP_HOSTS = _number("CRAWLFRAME_KEEP_HOSTS", 90, least=0, most=36_500)

DATA_UPLOAD_MAX_MEMORY_SIZE = 1 << 20  # bytes of a request's body

DATABASES = {
    "default": database_config(
        _text("DATABASE_URL", rank=EVERYDAY), VAR_DIR, f"crawlframe {CRAWLFRAME.node}"
    ),
    **_databases("CRAWLFRAME_DATABASES"),
}
DATABASE_ROUTERS = ["crawlservice.connections.routing.AppDatabases"]
# The team's own apps, and their other databases.
APPS, APP_DATABASES = [], {}
for _app in _apps("CRAWLFRAME_APPS"):
    _name, _, _alias = _app.partition("@")
    APPS.append(_name)
    if _alias:
        APP_DATABASES[_name] = _alias
OURS, *DJANGOS = [*ENGINE_APPS, *APPS]
INSTALLED_APPS = [
    OURS,  # its templates take precedence over the theme's
    "unfold.apps.BasicAppConfig",  # and the theme's over Django's
    "unfold.contrib.filters",
    *DJANGOS,
    "crawlservice.theme.apps.AdminConfig",  # urls.py loads it
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "axes",
    "ninja",  # static files of the API's pages
]
MIDDLEWARE = [
    "crawlservice.accounts.proxies.ClientAddress",
    "crawlservice.api.tasks.limits.ApiFrame",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "crawlservice.accounts.sessions.IdleSessions",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "axes.middleware.AxesMiddleware",
]
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF, NONCE],
        "img-src": [SELF, "data:"],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

# Five wrong passwords lock a user out at that address for a quarter of an hour; thirty, for any
# users, lock out everybody at that address. Other addresses are not affected.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    "django.contrib.auth.backends.ModelBackend",
]
AXES_FAILURE_LIMIT = 5
LOGIN_ADDRESS_LIMIT = 30
AXES_HANDLER = "crawlservice.accounts.logins.Guard"
AXES_CLIENT_IP_CALLABLE = "crawlservice.accounts.proxies.place_of"
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_LOCKOUT_CALLABLE = "crawlservice.accounts.logins.locked_out"
AXES_DISABLE_ACCESS_LOG = True  # the journal records it
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

ROOT_URLCONF = "crawlservice.urls"
WSGI_APPLICATION = "crawlservice.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
            ]
        },
    }
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

AUTO_MIGRATE = _flag("CRAWLFRAME_AUTO_MIGRATE")
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [PACKAGE / "locale"]
FORMAT_MODULE_PATH = ["crawlservice.formats"]

STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True  # serves the apps' own files: a fresh clone needs no collectstatic
WHITENOISE_AUTOREFRESH = DEBUG

LOGIN_REDIRECT_URL = "admin:index"

LOGGING = logs.config(CRAWLFRAME.log_level, CRAWLFRAME.node)
