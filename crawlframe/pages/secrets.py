"""Secrets: values that stored pages must not contain, and their placeholders. The placeholder is
the same in the arguments of the spider, in its requests and in their responses, so that a replay
fits together."""

from __future__ import annotations

import html
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from crawlframe.base.secret import (
    COOKIES,
    LOGINS,
    MIN_CHARS,
    TELLING,
    Secret,
    is_sealed,
    without_logins,
)
from crawlframe.request.values import BYTES

T = TypeVar("T")
STRIPPED = "stripped"  # stands in the place of a secret
# Characters from which on a value with letters and digits is replaced in pages as well.
TOKEN, PASSWORD = 12, 6
# Words in names of fields whose values are credentials.
_ALWAYS = {
    "password", "passwd", "passwort", "pwd", "secret", "token", "credential", "credentials",
    "authorization", "csrf", "xsrf", "csrftoken", "xsrftoken", "apikey", "otp", "jwt",
}  # fmt: skip
_PAIRS = {"api_key", "access_key", "private_key", "session_id"}
# Words that also name other data: the value decides.
_PERHAPS = {
    "auth", "key", "pass", "pin", "session", "sessionid", "sid", "sig", "signature", "hmac",
    "jsessionid", "phpsessid", "bearer",
}  # fmt: skip
# Names of logins that a server hands out. Other keys that it sends are data of the page.
_GIVEN = {
    "access_token", "refresh_token", "id_token", "auth_token", "session_token", "bearer_token",
    "client_secret",
}  # fmt: skip
_GIVEN_WORDS = {"password", "passwd", "jwt"}
_PAGING = {"page", "next", "prev", "previous", "continuation", "cursor", "paging", "offset"}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_PERCENT = re.compile(r"%[0-9A-F]{2}")
# Characters that encoders of JSON and JavaScript write as \uXXXX: of .NET, Django, Go and Gson.
_ESCAPED = (
    (re.compile(r"[\"&'+<>`\\]"), "04X"),
    (re.compile(r"[\"&'<>=;`\\-]"), "04X"),
    (re.compile(r"[&<>]"), "04x"),
    (re.compile(r"[&'<>=]"), "04x"),
)


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
    """Whether a field of this name in a response is a login that the server hands out."""
    words = _words(name)
    return bool(_GIVEN & _pairs(words) or _GIVEN_WORDS & {*words})


def is_token(value: str, least: int = TOKEN) -> bool:
    """Whether a text looks made by a machine, so that it is no word of a page by chance."""
    if len(value) < least or " " in value:
        return False
    return any(map(str.isdigit, value)) and any(map(str.isalpha, value))


def forms_of(secret: str) -> Iterable[str]:
    """The text as it is, and as URLs, HTML, JSON and scripts have it."""
    as_json = [json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]]
    as_json += [one.replace("/", "\\/") for one in as_json]  # as PHP does
    quoted = [quote_plus(secret), quote(secret), quote(secret, safe="")]
    quoted += [_PERCENT.sub(lambda found: found[0].lower(), one) for one in quoted]
    escaped = [
        marks.sub(lambda found, how=how: f"\\u{ord(found[0]):{how}}", secret)  # type: ignore[misc]
        for marks, how in _ESCAPED
    ]
    marked = html.escape(secret)
    other = marked.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")
    return dict.fromkeys((secret, *quoted, *as_json, *escaped, marked, other))


# Fields of URLs and forms, of JSON, and of multipart bodies.
_PARAMETER = re.compile(
    r"(?P<before>(?<![^?&;\s])(?P<name>[^?&;=#\s\"'<>]+)=)(?P<value>[^&;#\s\"'<>]*)"
)
_JSON_FIELD = re.compile(
    r'(?P<before>"(?P<name>[^"\\]{1,100})"\s*:\s*")(?P<value>(?:[^"\\]|\\.)*)(?=")'
)
_PART = re.compile(
    r'(?P<before>name="(?P<name>[^"]{1,100})"[^\r\n]*\r\n(?:[^\r\n]+\r\n)*\r\n)(?P<value>[^\r\n]*)'
)
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*://\S+")
_MENTIONS = (b"token", b"secret", b"passw", b"jwt")


class Secrets:
    """The secrets of a page or of a recording. First learn from every request; then strip.
    ``names``: of the stripped values."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._placeholders: dict[str, str] = {}  # secret -> its placeholder
        self._forms: list[tuple[str, str]] | None = None
        self._learns = False

    # -- learning ---------------------------------------------------------------------------------

    def learn(self, secret: str, placeholder: str = STRIPPED) -> None:
        """Replaces this text from now on, wherever it occurs."""
        if secret not in self._placeholders and STRIPPED not in secret:
            self._placeholders[secret], self._forms = placeholder, None

    def learn_from(self, strip: Callable[[T], object], value: T) -> None:
        """Learns the secrets that ``strip``, such as ``self.request``, takes out of a value."""
        names, self.names, self._learns = self.names, set(), True
        strip(value)
        self.names, self._learns = names, False

    def learn_arguments(self, arguments: Any, name: str = "") -> Any:
        """Returns the arguments with a placeholder for each Secret, which is learned."""
        match arguments:
            case Secret():
                placeholder = f"{STRIPPED}-{name}" if name else STRIPPED
                if len(text := arguments.reveal()) >= MIN_CHARS:
                    self.learn(text, placeholder)
                self.names.add(f"argument {name}")
                return placeholder
            case str() if is_named(name) and arguments and STRIPPED not in arguments:
                self._learn_word(arguments, f"{STRIPPED}-{name}")
                self.names.add(f"argument {name}")
                return f"{STRIPPED}-{name}"
            case Mapping() if not is_sealed(arguments):
                return {key: self.learn_arguments(one, str(key)) for key, one in arguments.items()}
            case list() | tuple():
                return [self.learn_arguments(one, name) for one in arguments]
        return arguments

    def learn_received(self, body: bytes) -> None:
        """Learns the logins that a server hands out in JSON."""
        lower = body.lower()
        if not any(word in lower for word in _MENTIONS):
            return
        for found in _JSON_FIELD.finditer(body.decode("utf-8", "replace")):
            if is_login(found["name"]):
                self._learn_word(_unescaped(found["value"]))

    def _learn_token(self, value: str) -> None:
        for text in {value, unquote(value)}:
            if is_token(text):
                self.learn(text)

    def _learn_word(self, value: str, placeholder: str = STRIPPED) -> None:
        """Learns the value of a field whose name tells, unless pages may have it by chance."""
        if is_token(value, PASSWORD) or (len(value) >= TOKEN and " " not in value):
            self.learn(value, placeholder)

    def _learn_login(self, value: str) -> None:
        login = value.rpartition(" ")[2]
        for text in (login, *_password(login)):
            if len(text) >= MIN_CHARS:
                self.learn(text)

    # -- stripping --------------------------------------------------------------------------------

    def text(self, text: str) -> str:
        """The text with placeholders for learned secrets."""
        for secret, placeholder in self._replaced:
            if secret in text:
                text = text.replace(secret, placeholder)
        return text

    def value(self, value: Any) -> Any:
        """A value of JSON with each text stripped."""
        match value:
            case str():
                return self.url(value) if _ADDRESS.fullmatch(value) else self.text(value)
            case dict():
                return {self.text(str(key)): self.value(one) for key, one in value.items()}
            case list():
                return [self.value(one) for one in value]
        return value

    def url(self, url: str) -> str:
        text = self.text(without_logins(url, ""))
        return self._fields_in(text, "parameter", _PARAMETER, unquote_plus)

    def sent_body(self, body: Any) -> Any:
        """A body that is sent, as ``body_to_json`` returns it."""
        if isinstance(body, str):
            return self._fields_of_body(self.text(body))
        if not _is_bytes(body):
            return self.value(body)
        found = self.body(b64decode(body[BYTES])).decode("latin-1")
        return _as_bytes(self._fields_of_body(found).encode("latin-1"))

    def body(self, body: bytes) -> bytes:
        """A body that was received."""
        for secret, placeholder in self._replaced:
            if (plain := secret.encode("utf-8", "replace")) in body:
                body = body.replace(plain, placeholder.encode())
        return body

    def headers(self, headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(name, self.header(name, value)) for name, value in headers]

    def request(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A request as ``request_to_json`` returns it."""
        stripped: dict[str, Any] = {}
        for name, value in given.items():
            match name:
                case "url":
                    stripped[name] = self.url(value)
                case "body":
                    stripped[name] = self.sent_body(value)
                case "headers":
                    stripped[name] = dict(self.headers(value.items()))
                case "cookies":
                    for cookie, text in value.items():
                        self._hide("cookie", cookie, text, self._learn_token)
                    stripped[name] = dict.fromkeys(value, STRIPPED)
                case "options":
                    stripped[name] = self._options(value)
                case "cb_kwargs" | "meta":
                    stripped[name] = self._named(value)
                case _:
                    stripped[name] = self.value(value)
        return stripped

    def _named(self, value: Any, name: str = "") -> Any:
        """Data of a request: text under a telling name is stripped as well."""
        match value:
            case dict() if _is_bytes(value):
                return _as_bytes(self.body(b64decode(value[BYTES])))
            case dict():
                return {key: self._named(one, str(key)) for key, one in value.items()}
            case list():
                return [self._named(one, name) for one in value]
            case str() if looks_secret(name, value):
                self._hide("value", name, value)
                return STRIPPED
        return self.value(value)

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        """The options of a request: an action may fill in a password."""
        found = self.value(options)
        for action in found.get("actions") or ():
            if "text" in action and looks_secret(str(action.get("selector")), action["text"]):
                self._hide("action", action["selector"], action["text"])
                action["text"] = STRIPPED
        if "proxy" in found:
            found["proxy"] = self.url(found["proxy"])
        return found  # type: ignore[no-any-return]

    def header(self, header: str, value: str) -> str:
        """The value of a header of this name."""
        name = header.lower()
        if name in LOGINS or (TELLING.search(name) and name not in COOKIES):
            how = self._learn_login if name in LOGINS else self._learn_token
            self._hide("header", header, value, how)
            scheme, space, _ = value.partition(" ")
            return f"{scheme} {STRIPPED}" if space and name in LOGINS else STRIPPED
        if name == "cookie":
            return "; ".join(self._cookie(pair.strip()) for pair in value.split(";"))
        if name in COOKIES:
            return self._cookie(value)
        has_url = "://" in value or name in ("location", "referer", "link")
        return self.url(value) if has_url else self.text(value)

    def _cookie(self, text: str) -> str:
        pair, mark, attributes = text.partition(";")
        name, _, value = pair.partition("=")
        name = name.strip()
        self._hide("cookie", name, value.strip(), self._learn_token)
        return f"{name}={STRIPPED}{mark}{self.text(attributes)}"

    def _fields_of_body(self, text: str) -> str:
        text = self._fields_in(text, "field", _PARAMETER, unquote_plus)
        text = self._fields_in(text, "field", _JSON_FIELD, _unescaped)
        return self._fields_in(text, "field", _PART, str)

    def _fields_in(
        self, text: str, what: str, pattern: re.Pattern[str], read: Callable[[str], str]
    ) -> str:
        def field(found: re.Match[str]) -> str:
            name, value = read(found["name"]), read(found["value"])
            if not looks_secret(name, value):
                return found[0]
            self._hide(what, name, value)
            return f"{found['before']}{STRIPPED}"

        return pattern.sub(field, text)

    def _hide(
        self, what: str, name: str, value: str, learn: Callable[[str], None] | None = None
    ) -> None:
        """Notes that a value is stripped, and learns it when that is asked for."""
        self.names.add(f"{what} {self.text(name)[:100]}")
        if self._learns:
            (learn or self._learn_word)(value)

    @property
    def _replaced(self) -> list[tuple[str, str]]:
        """Every form of a secret in texts, the longest first."""
        if self._forms is None:
            found: dict[str, str] = {}
            for secret, placeholder in self._placeholders.items():
                for form in forms_of(secret):
                    found.setdefault(form, placeholder)
            self._forms = sorted(found.items(), key=lambda one: (-len(one[0]), one[0]))
        return self._forms


def _unescaped(value: str) -> str:
    """The text of a string of JSON, as it is if it is none."""
    try:
        return str(json.loads(f'"{value}"'))
    except ValueError:
        return value


def _is_bytes(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {BYTES}


def _as_bytes(data: bytes) -> dict[str, str]:
    return {BYTES: b64encode(data).decode()}


def _password(login: str) -> Iterable[str]:
    """The password of a Basic login."""
    try:
        return [b64decode(login, validate=True).decode().partition(":")[2]]
    except ValueError:
        return []
