"""Wording: how messages and pages describe a Redis server and its errors."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from redis.exceptions import BusyLoadingError, ResponseError


def error_text(error: Exception) -> str:
    """The client's error as one line without a full stop."""
    reason = re.sub(r"\.? script: \w+, on @\w+:\d+\.?$", "", " ".join(str(error).split()))
    refused = isinstance(error, ResponseError | BusyLoadingError)
    return f"Redis {'refuses' if refused else 'does not answer'}: {reason.rstrip('.')}"


def refusal_of(error: Exception) -> str:
    """The error as one line if Redis refuses, for instance because its disk is full; otherwise
    ""."""
    causes = (cause for cause in (error, error.__context__) if isinstance(cause, ResponseError))
    return next(map(error_text, causes), "")


def without_password(url: str) -> str:
    """The URL with its password replaced by ***."""
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":***@") if password else url
