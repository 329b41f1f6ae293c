"""Keys: the Ed25519 keys with which requests are signed, and when each of them signs and is
published."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a process that signs nothing does without it
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


class SigningKey(NamedTuple):
    """A key pair. ``name`` is its JWK thumbprint; ``starts``: when it begins to sign, in seconds
    since the epoch. Its repr shows no private part."""

    name: str
    starts: float
    private: Ed25519PrivateKey

    def __repr__(self) -> str:
        return f"SigningKey({self.name!r}, {self.starts})"


def make() -> str:
    """A new private key, as text."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return _text(Ed25519PrivateKey.generate().private_bytes_raw())


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
