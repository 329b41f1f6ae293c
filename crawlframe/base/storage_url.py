"""Places of stores, as CRAWLFRAME_FILES and CRAWLFRAME_PAGES name them."""

from __future__ import annotations

from importlib.util import find_spec
from urllib.parse import urlsplit

from crawlframe.errors import ConfigError

S3 = "s3://"


def in_s3(place: str) -> bool:
    return place.startswith(S3)


def check_place(variable: str, place: str) -> None:
    """Raises ConfigError."""
    if in_s3(place):
        parts = urlsplit(place)
        if not parts.hostname or "@" in parts.netloc:
            raise ConfigError(
                f"{variable} must be s3://bucket/path; credentials come from the environment, "
                "as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            )
        if find_spec("s3fs") is None:
            raise ConfigError(
                f"{variable}={place!r} needs the extra s3: pip install 'crawlframe[s3]'"
            )
    elif "://" in place:
        raise ConfigError(f"{variable}={place!r} must be a directory or s3://bucket/path")
