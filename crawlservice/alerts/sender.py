"""AlertSender: sends the messages of alerts in threads, so that a target that hangs blocks nothing
else."""

from __future__ import annotations

import logging
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from django.db import Error as DatabaseError
from django.db import connection

from crawlframe.conf import Settings
from crawlservice.alerts.channels import Outgoing, send
from crawlservice.alerts.outbox import claim, settle
from crawlservice.webhooks.sender_thread import SenderThread

log = logging.getLogger(__name__)

AT_A_TIME = 8  # most targets sent to at the same time
IDLE_PAUSE = 1.0  # seconds between two checks when there is nothing to send

Sending = Future[tuple[str, str]]


class AlertSender(SenderThread):
    """The sender of one process. What it is sending when it is stopped is sent again by another, if
    it takes long."""

    sends = "alerts"

    def __init__(self, node: Settings) -> None:
        super().__init__()
        self._node = node

    def _work(self) -> None:
        sending: dict[Sending, Outgoing] = {}
        pool = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="alerts")
        try:
            while self._wanted or sending:
                self._tick(pool, sending)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _tick(self, pool: ThreadPoolExecutor, sending: dict[Sending, Outgoing]) -> None:
        try:
            if self._wanted:
                busy = [message.target for message in sending.values()]
                for message in claim(busy, AT_A_TIME - len(sending)):
                    sending[pool.submit(_send, self._node, message)] = message
            if not sending:
                time.sleep(IDLE_PAUSE)
                return
            done, _ = wait(sending, timeout=IDLE_PAUSE, return_when=FIRST_COMPLETED)
            for future in done:
                message = sending[future]
                settle(message.number, message.attempt, *future.result())
                del sending[future]
        except DatabaseError as error:  # what is not settled is settled later, or sent again
            log.warning("alerts wait: %s", " ".join(str(error).split()))
            connection.close()
            time.sleep(IDLE_PAUSE)


def _send(node: Settings, message: Outgoing) -> tuple[str, str]:
    try:
        return send(node, message)
    except Exception as error:
        # Without its text, which may repeat an address.
        log.error("alert message %d failed: %s", message.number, type(error).__name__)
        return f"{type(error).__name__}: see the log of the node", ""
