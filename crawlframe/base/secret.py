"""Secret: a spider argument that nothing shows, such as a token.

It wraps the text instead of being a str. A str subclass could mask its repr and an f-string, but
its text would still leave through +, join, slices, encode, json.dumps and C code, unnoticed. With
another type, f-strings show the mask and the rest fails; only ``reveal`` returns it."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Any, NoReturn, get_args
from urllib.parse import quote_plus

import msgspec

MASK = "********"
MIN_CHARS = 4  # characters of a secret that is masked in texts; shorter ones occur in other words
SEALED = "$secret"  # the only key of the JSON object that stands for a secret where it is stored
SCHEMA = {"type": "string", "format": "password", "writeOnly": True}
# Headers whose values are credentials, in lower case, and words in the names of others.
COOKIES = ("cookie", "set-cookie", "set-cookie2")
LOGINS = ("authorization", "proxy-authorization")
TELLING = re.compile(r"auth|token|secret|passw|credential|session|csrf|xsrf|api-?key|(^|-)key$")
_LOGIN = re.compile(r"(?<=://)[^/?#\s\"<>]+@")  # user and password of a URL


class Secret:
    """A text that is masked wherever it is shown. Annotate an argument of a spider with it:
    ``token: Secret``."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        """Raises TypeError if ``text`` is not a str."""
        if not isinstance(text, str):
            raise TypeError(f"a Secret is made of text, not of {type(text).__name__}")
        self._text = text

    def reveal(self) -> str:
        """Returns the text itself. Do not log or yield it. A Request that it is put into is stored
        with it, in Redis and the ledger."""
        return self._text

    def __repr__(self) -> str:
        return f"Secret('{MASK}')"

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled; reveal() returns its text")


def without_logins(text: str, mask: str = f"{MASK}@") -> str:
    """The text with ``mask`` for ``user:password@`` in URLs, which may be wrong ones."""
    return _LOGIN.sub(mask, text) if "@" in text else text


def masked(value: Any) -> Any:
    """Arguments as they may be shown: with MASK for each secret, stored or not, and for logins in
    URLs."""
    if isinstance(value, str):
        return without_logins(value)
    if isinstance(value, Secret) or is_sealed(value):
        return MASK
    if isinstance(value, Mapping):
        return {key: masked(part) for key, part in value.items()}
    return [masked(part) for part in value] if isinstance(value, list | tuple) else value


def secret_texts(value: Any) -> set[str]:
    """The texts of all secrets in arguments, as they are and as they are in URLs, to be masked in
    other texts."""
    if isinstance(value, Secret):
        text = value.reveal()
        return {text, quote_plus(text)} if len(text) >= MIN_CHARS else set()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return set().union(*map(secret_texts, parts))


def is_sealed(value: Any) -> bool:
    """Whether the value is the stored form of a secret."""
    return isinstance(value, dict) and value.keys() == {SEALED}


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of arguments, where secrets are marked. Raises TypeError for a type without a
    schema."""
    return msgspec.json.schema(kind, schema_hook=_schema)


def convert(arguments: Mapping[str, Any], kind: type[msgspec.Struct]) -> Any:
    """The arguments as an object of ``kind``; text becomes a Secret where one is asked for. Raises
    msgspec.ValidationError."""
    return msgspec.convert(arguments, kind, strict=False, dec_hook=_read)


def default_of(kind: Any, default: Any) -> Any:
    """The default of an argument of this type, as a Secret if it is text for one."""
    return Secret(default) if isinstance(default, str) and _is_hidden(kind) else default


def form_body(form: Any) -> bytes:
    """The form, urlencoded. Raises TypeError for a Secret, whose mask would be sent."""
    from urllib.parse import urlencode

    pairs = form.items() if isinstance(form, Mapping) else form
    for name, value in pairs:
        if any(isinstance(one, Secret) for one in _each(value)):
            raise TypeError(f"the form's {name!r} is a Secret; reveal() returns its text")
    return urlencode(form, doseq=True).encode()


def _each(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _is_hidden(kind: Any) -> bool:
    return kind is Secret or any(_is_hidden(part) for part in get_args(kind))


def _schema(kind: type) -> dict[str, Any]:
    if kind is Secret:
        return dict(SCHEMA)
    raise NotImplementedError


def _read(kind: type, value: Any) -> Any:
    if kind is not Secret:
        raise NotImplementedError
    if isinstance(value, Secret):
        return value
    if isinstance(value, str):
        return Secret(value)
    raise TypeError("Expected `str`")
