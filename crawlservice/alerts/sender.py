"""AlertSender: sends the messages of alerts."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from crawlframe.conf import Settings
from crawlservice.alerts.channels import Outgoing, send
from crawlservice.alerts.outbox import OUTBOX
from crawlservice.outbox.sender import Sender


class AlertSender(Sender[Outgoing]):
    """Sends in threads: the libraries of mail and services block."""

    at_a_time = 8

    def __init__(self, node: Settings) -> None:
        super().__init__(OUTBOX)
        self._node = node
        self._pool = ThreadPoolExecutor(self.at_a_time, thread_name_prefix="alerts")

    async def send(self, message: Outgoing) -> tuple[str, dict[str, Any]]:
        loop = asyncio.get_running_loop()
        problem, reply = await loop.run_in_executor(self._pool, send, self._node, message)
        return problem, {"reply": reply}

    async def end(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
