"""Http: batches in POST requests, signed as webhooks are. An attempt that is repeated has the same
Idempotency-Key, by which the receiver knows it."""

from __future__ import annotations

import asyncio
from itertools import chain

import orjson

from crawlframe import faults
from crawlframe.conf import Settings
from crawlframe.fetch.limits import FetchLimits
from crawlservice.exports.batch import Batch, Limits
from crawlservice.exports.definition import HttpTarget
from crawlservice.exports.writer import BatchName, TargetError
from crawlservice.tasks.export import lines
from crawlservice.webhooks.address import parsed
from crawlservice.webhooks.deliveries import WebhookMessage
from crawlservice.webhooks.sender import downloader, send

LIMITS = FetchLimits(timeout=60, max_body=1 << 20, max_redirects=0, connect=10, stall=30)
TYPES = {"jsonl": "application/x-ndjson", "json": "application/json"}


class HttpWriter:
    def __init__(self, target: HttpTarget, node: Settings, installation: str) -> None:
        """``installation``: its id, so that no two installations use the same keys."""
        self.limits = Limits(target.max_rows, 4 << 20)
        self._target, self._node, self._installation = target, node, installation

    def send(self, name: BatchName, batch: Batch) -> str:
        key = f"{self._installation}.{name}"
        address = parsed(self._target.url)
        message = WebhookMessage(address, self._target.secret, key, self._body(batch))
        headers = {"Idempotency-Key": key, "Content-Type": TYPES[self._target.format]}
        faults.at("export.write.before")
        if problem := asyncio.run(self._post(message, headers)):
            raise TargetError(problem)
        faults.at("export.write.after")
        return key

    def test(self, name: BatchName, empty: Batch) -> None:
        self.send(name, empty)

    def close(self) -> None:
        pass

    def _body(self, batch: Batch) -> bytes:
        if self._target.format == "jsonl":
            return b"".join(lines(batch.chunks))
        rows = [line.rstrip(b"\n") for line in chain.from_iterable(
            piece.splitlines(keepends=True) for piece in lines(batch.chunks)
        )]  # fmt: skip
        return orjson.dumps([orjson.Fragment(row) for row in rows])

    async def _post(self, message: WebhookMessage, headers: dict[str, str]) -> str:
        curl = downloader(self._node)
        try:
            return await send(curl, message, headers, LIMITS)
        finally:
            await curl.close()
