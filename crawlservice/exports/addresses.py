"""Addresses of targets: read, checked, and shown without passwords."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from django.conf import settings

from crawlframe.secret import MASK

Address = tuple[str, ...]
Refusal = Callable[[str, str], Exception]


def parts_of(field: str, url: str, refusal: Refusal) -> SplitResult:
    """Raises ``refusal(field, text)``."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise refusal(field, f"{error}; write it as scheme://host:port/path") from None
    return parts


def host_of(url: str) -> str:
    """Scheme, user and host: where a password is sent. A directory has none of them."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{place}" if parts.netloc else ""


def options_of(url: str) -> dict[str, str]:
    """What stands after the question mark."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def without_password(url: str) -> str:
    """``sftp://ann:secret@host/`` -> ``sftp://ann:********@host/``."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    return parts._replace(netloc=f"{user}:{MASK}{at}{place}").geturl() if colon else url


def with_password_of(url: str, known: str) -> str | None:
    """A masked URL with the password that ``known`` has for the same user, host and options; None
    if it has none for them. Options of a database may name another host."""
    if host_of(url) != host_of(known) or not host_of(url):
        return None
    if urlsplit(url).query != urlsplit(known).query:
        return None
    return urlsplit(url)._replace(netloc=urlsplit(known).netloc).geturl()


def is_masked(url: str) -> bool:
    return f":{MASK}@" in url


def check_path(path: str, refusal: Refusal) -> None:
    """Raises ``refusal`` for a directory that is not below the one that exports may write to."""
    top = Path(settings.EXPORT_DIR)
    if not (top / path).resolve().is_relative_to(top.resolve()):
        raise refusal(
            "target.url",
            f"{path} is not below {top}; name a directory in it, or set CRAWLFRAME_EXPORT_DIR on "
            "the web and all nodes",
        )


def directory_of(path: str) -> Path:
    """The directory of a checked path."""
    return (Path(settings.EXPORT_DIR) / path).resolve()
