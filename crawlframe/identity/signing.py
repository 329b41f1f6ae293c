"""Signing: HTTP Message Signatures (RFC 9421) as Web Bot Auth wants them
(draft-ietf-webbotauth-httpsig-protocol-01), for requests and for the directory of our keys.

Keys: the Ed25519 keys with which requests are signed, and when each of them signs and is
published.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from crawlframe.base.urls import host_of
from crawlframe.errors import ConfigError

if TYPE_CHECKING:  # a process that signs nothing does without it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VARIABLE = "CRAWLFRAME_BOT_AUTH"
DIRECTORY = "/.well-known/http-message-signatures-directory"
# Seconds. A request is sent within its timeout; the rest is for clocks that differ.
LIFETIME = 120
DIRECTORY_LIFETIME = 7 * 24 * 3600  # seconds; lists of directories may hand it on for days
LABEL = "sig1"
_NONCE = 48  # bytes, which base64 writes without padding
Headers = list[tuple[str, str]]


def check_origin(text: str) -> str:
    """Returns the origin in its one form, without a path. Raises ConfigError for other text than an
    https origin."""
    if not text:
        return ""
    try:
        parts = urlsplit(text.strip())
        host, port = (parts.hostname or "").lower(), parts.port
        plain = text.isascii() and text.isprintable() and not set(text) & set('"\\ ')
        more = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
    except ValueError:
        host = ""
    if not host or parts.scheme != "https" or more or not plain:
        raise ConfigError(
            f"{VARIABLE}={text!r} must be the https origin at which sites find the keys, such as "
            "https://crawler.example.com"
        )
    host = f"[{host}]" if ":" in host else host
    return f"https://{host}" if port in (None, 443) else f"https://{host}:{port}"


class Signer:
    """Signs requests with the current key: of the keys that have started, the last. ``agent`` is
    the URL of the keys."""

    def __init__(self, agent: str, keys: Iterable[SigningKey], label: str = LABEL) -> None:
        self._keys = sorted(keys, key=lambda key: key.starts)
        self._named = ("Signature-Agent", f'{label}="{agent}"')
        self._label = label
        self._covered = f'("@authority" "signature-agent";key="{label}")'
        self._head = f'"signature-agent";key="{label}": "{agent}"\n"@signature-params": '
        self._current: SigningKey | None = None
        self._until = 0.0

    def key_at(self, now: float) -> SigningKey | None:
        """The key that signs at this time, in seconds since the epoch."""
        if now >= self._until or self._current is None:
            started = [key for key in self._keys if key.starts <= now]
            later = [key.starts for key in self._keys if key.starts > now]
            self._current = started[-1] if started else None
            self._until = min(later, default=float("inf"))
        return self._current

    def sign(self, authority: str, now: float, nonce: str = "") -> Headers:
        """The three headers that sign a request to this authority; none while there is no key. The
        draft counts a signature that is sent with several requests as a mistake, so each request
        gets a nonce of its own."""
        key = self.key_at(now)
        if key is None:
            return []
        created = int(now)
        params = (
            f'{self._covered};created={created};keyid="{key.name}";alg="ed25519"'
            f';expires={created + LIFETIME};nonce="{nonce or _nonce()}";tag="web-bot-auth"'
        )
        base = f'"@authority": {authority}\n{self._head}{params}'
        return [
            self._named,
            ("Signature-Input", f"{self._label}={params}"),
            ("Signature", f"{self._label}=:{_sign(key, base)}:"),
        ]


def authority_of(url: str, headers: Sequence[tuple[str, str]]) -> str:
    """The authority as the server sees it (RFC 9421, 2.2.3): the Host header, if a spider sets its
    own."""
    for name, value in headers:
        if name.lower() == "host":
            default = ":443" if url.startswith("https:") else ":80"
            return value.strip().lower().removesuffix(default)
    return host_of(url)


def sign_directory(
    keys: Iterable[SigningKey], authority: str, body: bytes, created: int
) -> dict[str, str]:
    """The headers that prove, with a signature by each key, that the keys of the directory ``body``
    belong to this authority."""
    digest = f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"
    inputs, signatures = [], []
    for number, key in enumerate(keys):
        params = (
            f'("@authority";req "content-digest");created={created};keyid="{key.name}"'
            f';alg="ed25519";expires={created + DIRECTORY_LIFETIME}'
            ';tag="http-message-signatures-directory"'
        )
        base = (
            f'"@authority";req: {authority}\n"content-digest": {digest}\n'
            f'"@signature-params": {params}'
        )
        inputs.append(f"binding{number}={params}")
        signatures.append(f"binding{number}=:{_sign(key, base)}:")
    return {
        "Content-Digest": digest,
        "Signature-Input": ", ".join(inputs),
        "Signature": ", ".join(signatures),
    }


def _sign(key: SigningKey, base: str) -> str:
    return b64encode(key.private.sign(base.encode())).decode()


def _nonce() -> str:
    return b64encode(os.urandom(_NONCE)).decode()


class SigningKey(NamedTuple):
    """A key pair. ``name`` is its JWK thumbprint; ``starts``: when it starts to sign, in seconds
    since the epoch. Its repr shows no private part."""

    name: str
    starts: float
    private: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"SigningKey({self.name!r}, {self.starts})"


def make() -> str:
    """A new private key, as text. Its thumbprint never begins with "-", which commands would take
    for an option."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    while True:
        key = Ed25519PrivateKey.generate()
        if not thumbprint(public_of(key)).startswith("-"):
            return _text(key.private_bytes_raw())


def read(private: str, starts: float) -> SigningKey:
    """The key that ``make`` wrote. Raises ValueError."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(_bytes(private))
    return SigningKey(thumbprint(public_of(key)), starts, key)


def public_of(key: Ed25519PrivateKey) -> str:
    """The public part, as a JWK has it in ``x`` (RFC 8037)."""
    return _text(key.public_key().public_bytes_raw())


def thumbprint(public: str) -> str:
    """The JWK thumbprint of a public key (RFC 7638, RFC 8037 A.3)."""
    members = f'{{"crv":"Ed25519","kty":"OKP","x":"{public}"}}'
    return _text(hashlib.sha256(members.encode()).digest())


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))
