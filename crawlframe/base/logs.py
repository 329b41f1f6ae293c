"""Log format of every process: time, level, node and process, logger, message."""

from __future__ import annotations

import logging
import logging.config
from typing import Any

from crawlframe.base.secret import without_logins
from crawlframe.errors import ConfigError

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class RefusalFilter(logging.Filter):
    """Removes the traceback of a 403 response, whose message names the refusal."""

    def filter(self, record: logging.LogRecord) -> bool:
        if getattr(record, "status_code", None) == 403:
            record.exc_info = None
        return True


class LineFormatter(logging.Formatter):
    """Formats a log record as a line that masks user and password of URLs."""

    def format(self, record: logging.LogRecord) -> str:
        return without_logins(super().format(record))


def config(level: str, node: str) -> dict[str, Any]:
    """The ``logging.config`` dictionary: everything goes to standard error.

    Raises ConfigError when there is no such level."""
    if level.upper() not in LEVELS:
        raise ConfigError(f"CRAWLFRAME_LOG_LEVEL={level!r} is none of {', '.join(LEVELS)}")
    who = node.replace("%", "%%")
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": LineFormatter,
                "fmt": f"%(asctime)s.%(msecs)03d %(levelname)-7s {who}/%(process)d "
                "%(name)s: %(message)s",
                "datefmt": "%Y-%m-%d %H:%M:%S",
            }
        },
        "filters": {"refused": {"()": RefusalFilter}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"level": level.upper(), "handlers": ["stderr"]},
        "loggers": {
            # Django's own handlers would mail administrators and print a second time.
            "watchfiles": {"level": "WARNING"},
            "axes": {"level": "WARNING"},
            "django": {"level": "INFO", "handlers": [], "propagate": True},
            "django.request": {"filters": ["refused"]},
            "django.server": {"level": "INFO", "handlers": [], "propagate": True},
            # They would log a traceback for every scanner that requests an unknown host.
            "django.security.DisallowedHost": {"level": "CRITICAL"},
        },
    }


def configure(level: str, node: str) -> None:
    """Applies ``config`` to this process and the children it forks."""
    logging.config.dictConfig(config(level, node))
