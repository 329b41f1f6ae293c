"""Sealing: secrets that must be read again are encrypted at rest (Fernet: AES-128-CBC with
HMAC-SHA256). The key is derived from SECRET_KEY by HKDF (RFC 5869), so a copy of the database alone
reveals nothing."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from functools import lru_cache

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from crawlframe.errors import ConfigError

PURPOSE = b"crawlframe sealed secrets 1"


class SealError(ConfigError):
    """A secret was encrypted with another key."""


def seal(text: str) -> str:
    """``text`` encrypted with a key derived from SECRET_KEY; "" stays ""."""
    return _box().encrypt(text.encode()).decode() if text else ""


def unseal(sealed: str) -> str:
    """The text sealed with SECRET_KEY or one of SECRET_KEY_FALLBACKS. Raises SealError."""
    try:
        return _box().decrypt(sealed.encode()).decode() if sealed else ""
    except InvalidToken:
        raise SealError(
            "the secret was encrypted with another CRAWLFRAME_SECRET_KEY; give the web and all "
            "nodes the same one, and name the former one in CRAWLFRAME_SECRET_KEY_FALLBACKS, "
            "and restart them"
        ) from None


def reseal(sealed: str) -> str:
    """The same secret, encrypted with SECRET_KEY. Raises SealError."""
    return seal(unseal(sealed))


def _box() -> MultiFernet:
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return MultiFernet([_key(key) for key in keys])


@lru_cache(maxsize=8)
def _key(secret: str) -> Fernet:
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=PURPOSE).derive(secret.encode())
    return Fernet(urlsafe_b64encode(derived))
