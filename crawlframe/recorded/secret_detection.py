"""Telling: which fields hold secrets, by their names and values."""

from __future__ import annotations

import re
from itertools import pairwise

STRIPPED = "stripped"  # stands in the place of a secret
# Characters from which on a value with letters and digits is replaced in pages as well.
TOKEN, PASSWORD = 12, 6

# Words in names of fields whose values let somebody in.
_ALWAYS = {
    "password", "passwd", "passwort", "pwd", "secret", "token", "credential", "credentials",
    "authorization", "csrf", "xsrf", "csrftoken", "xsrftoken", "apikey", "otp", "jwt",
}  # fmt: skip
_PAIRS = {"api_key", "access_key", "private_key", "session_id"}
# Words that also name what is no secret: the value decides.
_PERHAPS = {
    "auth", "key", "pass", "pin", "session", "sessionid", "sid", "sig", "signature", "hmac",
    "jsessionid", "phpsessid", "bearer",
}  # fmt: skip
# Those of logins that a server hands out. Other keys that it sends are data of the page.
_GIVEN = {
    "access_token", "refresh_token", "id_token", "auth_token", "session_token", "bearer_token",
    "client_secret",
}  # fmt: skip
_GIVEN_WORDS = {"password", "passwd", "jwt"}
_PAGING = {"page", "next", "prev", "previous", "continuation", "cursor", "paging", "offset"}

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")


def looks_secret(name: str, value: str) -> bool:
    """Whether a field of this name has a secret as its value."""
    if not value:
        return False
    if is_named(name):
        return True
    words = {*_words(name)}
    perhaps = bool(_PERHAPS & words) and not _PAGING & words
    return perhaps and (is_token(value) or value == STRIPPED)


def is_named(name: str) -> bool:
    """Whether a field of this name has a secret as its value, whatever that looks like."""
    words = _words(name)
    return not _PAGING & {*words} and bool(_ALWAYS & {*words} or _PAIRS & _pairs(words))


def _words(name: str) -> list[str]:
    return [one for one in _SEPARATORS.split(_CAMEL.sub("_", name).lower()) if one]


def _pairs(words: list[str]) -> set[str]:
    return {"_".join(pair) for pair in pairwise(words)}


def is_login(name: str) -> bool:
    """Whether a field of this name, in what a server sends, is a login that it hands out."""
    words = _words(name)
    return bool(_GIVEN & _pairs(words) or _GIVEN_WORDS & {*words})


def is_token(value: str, least: int = TOKEN) -> bool:
    """Whether it looks made by a machine, so that it is no word of a page by chance."""
    if len(value) < least or " " in value:
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))
