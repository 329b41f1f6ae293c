"""An independent verifier of our signatures, and messages in its form."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, MappingKeyResolver, algorithms


@dataclass
class Message:
    """A message as the verifier wants it."""

    url: str
    headers: dict[str, str]
    method: str = "GET"


@dataclass
class Answered:
    """A response, as the verifier wants it."""

    request: Message
    headers: dict[str, str]
    status_code: int = 200


def verifier(public: Mapping[str, str]) -> HTTPMessageVerifier:
    """``public``: the names of keys, and ``x`` of their JWK."""
    keys = {
        name: Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(f"{x}="))
        for name, x in public.items()
    }
    return HTTPMessageVerifier(
        signature_algorithm=algorithms.ED25519,
        key_resolver=MappingKeyResolver(public_keys=keys, private_keys={}),
    )
