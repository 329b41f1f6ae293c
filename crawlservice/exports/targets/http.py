"""Http: batches in POST requests, signed as webhooks are. A repeated attempt has the same
Idempotency-Key, so the receiver recognises it."""

from __future__ import annotations

import asyncio
from itertools import chain
from typing import Annotated, Literal

import orjson
from django.utils.translation import gettext_lazy as _
from pydantic import Field

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlframe.fetch.journey.context import FetchLimits
from crawlservice.exports.addresses import Address, BadExport, host_of, parts_of
from crawlservice.exports.target import (
    BatchName,
    ExportBatch,
    FormField,
    Limits,
    Target,
    TargetError,
    TargetKind,
    Text,
    Writer,
)
from crawlservice.tasks.results.export import lines
from crawlservice.webhooks.address import parsed
from crawlservice.webhooks.deliveries import WebhookMessage

LIMITS = FetchLimits(timeout=60, max_body=1 << 20, max_redirects=0, connect=10, stall=30)
TYPES = {"jsonl": "application/x-ndjson", "json": "application/json"}


class HttpTarget(Target):
    """An address that receives batches in POST requests, signed as webhooks are. `secret`: with
    which they are signed; empty: one is made and shown once."""

    SECRETS = ("url", "secret")
    SIGNS_WITH = "secret"

    kind: Literal["http"]
    url: Annotated[
        Text,
        Field(min_length=1),
        FormField(_("Address"), _("https://…, to which batches are sent")),
    ]
    format: Annotated[Literal["jsonl", "json"], FormField(_("Format"))] = "jsonl"
    max_rows: Annotated[int, Field(ge=1, le=10_000), FormField(_("Rows at most"))] = 500
    secret: Annotated[
        str,
        Field(max_length=200, pattern=r"^([!-~]{8,})?$"),
        FormField(
            _("Secret"),
            _("with which requests are signed; empty: one is made and shown once"),
        ),
    ] = ""

    def check(self) -> None:
        parts = parts_of("target.url", self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadExport("target.url", "it must start with https:// or http://")
        if "@" in parts.netloc and not parts.password:
            raise BadExport("target.url", "write the login as user:password@host")

    @property
    def destination(self) -> Address:
        return self.kind, host_of(self.url)

    def open(self, node: Settings, installation: str) -> Writer:
        return HttpWriter(self, node, installation)


class HttpWriter:
    def __init__(self, target: HttpTarget, node: Settings, installation: str) -> None:
        """``installation``: its id, so that no two installations use the same keys."""
        self.limits = Limits(target.max_rows, 4 << 20)
        self._target, self._node, self._installation = target, node, installation

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        key = f"{self._installation}.{name}"
        address = parsed(self._target.url)
        message = WebhookMessage(address, self._target.secret, key, self._body(batch))
        headers = {"Idempotency-Key": key, "Content-Type": TYPES[self._target.format]}
        faults.at("export.write.before")
        if problem := asyncio.run(self._post(message, headers)):
            raise TargetError(problem)
        faults.at("export.write.after")
        return key

    def test(self, name: BatchName, empty: ExportBatch) -> None:
        self.send(name, empty)

    def close(self) -> None:
        pass

    def _body(self, batch: ExportBatch) -> bytes:
        if self._target.format == "jsonl":
            return b"".join(lines(batch.chunks))
        rows = [line.rstrip(b"\n") for line in chain.from_iterable(
            piece.splitlines(keepends=True) for piece in lines(batch.chunks)
        )]  # fmt: skip
        return orjson.dumps([orjson.Fragment(row) for row in rows])

    async def _post(self, message: WebhookMessage, headers: dict[str, str]) -> str:
        # Imported here: most nodes never need it, and it takes memory.
        from crawlservice.webhooks.sender import downloader, send

        curl = downloader(self._node)
        try:
            return await send(curl, message, headers, LIMITS)
        finally:
            await curl.close()


TARGET = TargetKind("http", _("HTTP endpoint"), HttpTarget)
