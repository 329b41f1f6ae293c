"""Addresses of targets: read, checked, and shown without secrets."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, urlsplit

from django.conf import settings

from crawlframe.base.secret import MASK
from crawlframe.errors import FieldError

Address = tuple[str, ...]
HTTP = ("http", "https")


class BadExport(FieldError):
    """``field``: the part of the definition that is wrong."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(field, f"{field}: {text}")


def parts_of(field: str, url: str) -> SplitResult:
    """Raises BadExport."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise BadExport(field, f"{error}; write it as scheme://host:port/path") from None
    return parts


def host_of(url: str) -> str:
    """Scheme, user and host: where a password is sent. A directory has none of them."""
    parts = urlsplit(url)
    user, at, place = parts.netloc.rpartition("@")
    return f"{parts.scheme}://{user.partition(':')[0]}{at}{place}" if parts.netloc else ""


def options_of(url: str) -> dict[str, str]:
    """The query of a URL, as a dict."""
    return dict(parse_qsl(urlsplit(url).query, keep_blank_values=True))


def without_secrets(url: str) -> str:
    """``sftp://ann:secret@host/`` -> ``sftp://ann:********@host/``, and ``https://host/?token=x``
    -> ``https://host/?********``. The options of others are no secrets."""
    parts = urlsplit(url)
    login, at, place = parts.netloc.rpartition("@")
    user, colon, _ = login.partition(":")
    netloc = f"{user}:{MASK}{at}{place}" if colon else parts.netloc
    query = MASK if parts.query and parts.scheme in HTTP else parts.query
    return parts._replace(netloc=netloc, query=query).geturl()


def with_secrets_of(url: str, known: str) -> str | None:
    """A masked URL with the password and the query that ``known`` has for the same user and host;
    None if it has none for them. Options of a database may name another host, so they must be the
    same."""
    if host_of(url) != host_of(known) or not host_of(url):
        return None
    parts, before = urlsplit(url), urlsplit(known)
    if parts.query != before.query and parts.scheme not in HTTP:
        return None
    if parts.query == MASK and before.query:
        parts = parts._replace(query=before.query)
    if f":{MASK}@" in parts.netloc:
        parts = parts._replace(netloc=before.netloc)
    whole = parts.geturl()
    return None if is_masked(whole) else whole


def is_masked(url: str) -> bool:
    parts = urlsplit(url)
    return f":{MASK}@" in parts.netloc or parts.query == MASK


def check_path(path: str) -> None:
    """Raises BadExport for a directory that is not below the directory of exports."""
    top = Path(settings.EXPORT_DIR)
    if not (top / path).resolve().is_relative_to(top.resolve()):
        raise BadExport(
            "target.url",
            f"{path} is not below {top}; name a directory in it, or set CRAWLFRAME_EXPORT_DIR on "
            "the web and all nodes and restart them",
        )


def directory_of(path: str) -> Path:
    """The directory of a checked path."""
    return (Path(settings.EXPORT_DIR) / path).resolve()
