"""WebhookSender: sends the messages of webhooks, signed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import time
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from crawlframe.conf import Settings
from crawlframe.errors import BadRequest, FetchError, PrivateAddress, TooManyRedirects
from crawlframe.fetch.curl.downloader import CurlDownloader
from crawlframe.fetch.journey.context import FetchLimits
from crawlframe.request.request import Request
from crawlservice.outbox.sender import Sender
from crawlservice.security.masking import scrubbed
from crawlservice.webhooks.deliveries import OUTBOX, WebhookMessage

log = logging.getLogger(__name__)

# Shorter than the lease of a claim: an attempt has ended before the next starts.
LIMITS = FetchLimits(timeout=10, max_body=1 << 20, max_redirects=0, connect=5, stall=10)
ANSWER_CHARS = 200  # characters shown of a receiver's answer
USER_AGENT = "Crawlframe-Webhook/1"


class WebhookSender(Sender[WebhookMessage]):
    """Sends deliveries, over one set of connections."""

    at_a_time = 16

    def __init__(self, node: Settings) -> None:
        super().__init__(OUTBOX)
        self._curl = downloader(node, self.at_a_time)

    async def send(self, message: WebhookMessage) -> tuple[str, dict[str, Any]]:
        problem = await send(self._curl, message)
        log.debug("%s to %s: %s", message.id, message.address.shown, problem or "arrived")
        return problem, {}

    async def end(self) -> None:
        await self._curl.close()


def downloader(node: Settings, at_a_time: int = 1) -> CurlDownloader:
    return CurlDownloader(node.allow_private + node.webhook_private, at_a_time)


async def send(
    curl: CurlDownloader,
    message: WebhookMessage,
    more: Mapping[str, str] = MappingProxyType({}),
    limits: FetchLimits | None = None,
) -> str:
    """One attempt; ``more`` headers replace ours, ``limits`` the limits of webhooks. Returns why it
    did not arrive, or "". An answer that repeats secrets of the address is masked."""
    problem = await _post(curl, message, more, limits or LIMITS)
    if problem:
        for secret in (message.address.sent_query, message.address.secret):
            problem = scrubbed(problem, f"://{secret}")
    return problem


async def _post(
    curl: CurlDownloader, message: WebhookMessage, more: Mapping[str, str], limits: FetchLimits
) -> str:
    headers = {
        "Content-Type": "application/json",
        "User-Agent": USER_AGENT,
        **more,
        **signed(message, int(time.time())),
        **_login(message),
    }
    try:
        request = Request(message.address.destination, method="POST", body=message.body)
        response = await curl.fetch(request, limits, headers)
    except TooManyRedirects:
        return "it redirects, which is not followed; use the address it redirects to"
    except PrivateAddress:
        return (
            "its address is not public; if it may be sent to, name its network in "
            "CRAWLFRAME_WEBHOOK_PRIVATE"
        )
    except (FetchError, BadRequest) as error:
        return str(error)
    if 200 <= response.status < 300:
        return ""
    return f"it answered {response.status}: {response.text[:ANSWER_CHARS]}".rstrip(": ")


def send_now(node: Settings, message: WebhookMessage) -> str:
    """Sends a message now and waits for the answer, at most 10 s. Returns as ``send``."""

    async def once() -> str:
        curl = downloader(node)
        try:
            return await send(curl, message)
        finally:
            await curl.close()

    return asyncio.run(once())


def signed(message: WebhookMessage, timestamp: int) -> dict[str, str]:
    """The headers that verify us to a receiver, as in the Standard Webhooks specification."""
    content = f"{message.id}.{timestamp}.".encode() + message.body
    digest = hmac.digest(_key(message.secret), content, hashlib.sha256)
    return {
        "webhook-id": message.id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }


def _login(message: WebhookMessage) -> dict[str, str]:
    """Basic authentication (RFC 7617), if the address has a user and a password."""
    if not message.address.login:
        return {}
    user, _, password = map(unquote, message.address.login.partition(":"))
    return {"Authorization": f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"}


def _key(secret: str) -> bytes:
    text = secret.removeprefix("whsec_")
    try:
        return b64decode(text, validate=True) if text != secret else secret.encode()
    except NotBase64:
        return secret.encode()
