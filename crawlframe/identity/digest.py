"""Digest: the client's side of HTTP digest authentication (RFC 7616), with qop=auth or none."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from urllib.parse import quote

_ALGORITHMS = {"SHA-512-256": "sha512_256", "SHA-256": "sha256", "MD5": "md5"}  # the best first
# A quoted string without an end reaches to the end, so that the time is linear.
_PART = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*(?:"|\\?$))+', re.DOTALL)
_PARAM = re.compile(r'\s*([\w!#$%&\'*+.^`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s"]*))\s*')
_START = re.compile(r"\s*([\w!#$%&'*+.^`|~-]+)(?:\s+(.*))?$", re.DOTALL)


def challenges(values: Iterable[str]) -> list[tuple[str, dict[str, str]]]:
    """The schemes, in lower case, and parameters in WWW-Authenticate headers (RFC 9110, 11.6.1)."""
    found: list[tuple[str, dict[str, str]]] = []
    for value in values:
        for part in _PART.findall(value):
            param = _PARAM.fullmatch(part)
            if param is None:
                start = _START.match(part)
                if start is None:
                    continue
                found.append((start[1].lower(), {}))
                param = _PARAM.fullmatch(start[2] or "")
            if param is not None and found:
                text = param[3] if param[2] is None else re.sub(r"\\(.)", r"\1", param[2])
                found[-1][1][param[1].lower()] = text
    return found


class Challenge:
    """A server's digest challenge, and how often it was answered."""

    def __init__(self, given: dict[str, str]) -> None:
        self.nonce = given["nonce"]
        self._given = given
        self._uses = 0

    @classmethod
    def best(cls, values: Iterable[str]) -> Challenge | None:
        """The answerable challenge with the strongest hash, or None."""
        fit = [given for scheme, given in challenges(values) if scheme == "digest" and _fits(given)]
        best = min(fit, key=lambda given: [*_ALGORITHMS].index(_algorithm(given)), default=None)
        return None if best is None else cls(best)

    def answer(self, method: str, target: str, user: str, password: str, cnonce: str = "") -> str:
        """The value of the Authorization header for a request. ``target``: path and query."""
        given, digest = self._given, _digest(self._given)
        realm, session = given.get("realm", ""), _is_session(given)
        self._uses += 1
        cnonce, count = cnonce or secrets.token_urlsafe(24), f"{self._uses:08x}"
        secret = digest(f"{user}:{realm}:{password}")
        if session:
            secret = digest(f"{secret}:{self.nonce}:{cnonce}")
        what, middle = digest(f"{method}:{target}"), self.nonce
        if given.get("qop"):
            middle = f"{self.nonce}:{count}:{cnonce}:auth"
        fields = [
            _user(digest(f"{user}:{realm}") if _is_hashed(given) else user),
            f'realm="{_quoted(realm)}", nonce="{_quoted(self.nonce)}", uri="{_quoted(target)}"',
            f'response="{digest(f"{secret}:{middle}:{what}")}"',
        ]
        if "algorithm" in given:
            fields.append(f"algorithm={given['algorithm']}")
        if "opaque" in given:
            fields.append(f'opaque="{_quoted(given["opaque"])}"')
        if given.get("qop"):
            fields.append(f'qop=auth, nc={count}, cnonce="{cnonce}"')
        elif session:
            fields.append(f'cnonce="{cnonce}"')
        if _is_hashed(given):
            fields.append("userhash=true")
        return f"Digest {', '.join(fields)}"


def _fits(given: dict[str, str]) -> bool:
    offered = [word.strip().lower() for word in given.get("qop", "auth").split(",")]
    plain = all(text.isascii() and text.isprintable() for text in given.values())
    return "nonce" in given and _algorithm(given) in _ALGORITHMS and "auth" in offered and plain


def _algorithm(given: dict[str, str]) -> str:
    return given.get("algorithm", "MD5").upper().removesuffix("-SESS")


def _is_session(given: dict[str, str]) -> bool:
    return given.get("algorithm", "").upper().endswith("-SESS")


def _is_hashed(given: dict[str, str]) -> bool:
    return given.get("userhash", "").lower() == "true"


def _digest(given: dict[str, str]) -> Callable[[str], str]:
    name = _ALGORITHMS[_algorithm(given)]
    return lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest()


def _user(name: str) -> str:
    return f'username="{_quoted(name)}"' if name.isascii() else f"username*=UTF-8''{quote(name)}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
