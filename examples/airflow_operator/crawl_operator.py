"""CrawlOperator: a crawl as a task of Airflow. No worker of Airflow waits while it runs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
from airflow.exceptions import AirflowException
from airflow.sdk import BaseHook, BaseOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

ENDED = ("finished", "finished_with_errors", "failed", "cancelled")


def api(connection: str) -> dict[str, Any]:
    """The arguments of a client of httpx. Host: the address of the web; password: a token."""
    found = BaseHook.get_connection(connection)
    return {
        "base_url": f"{found.host}/api/v1/",
        "headers": {"Authorization": f"Bearer {found.password}"},
        "timeout": 30.0,
    }


class CrawlOperator(BaseOperator):
    """Submits once for each run of the DAG, however often Airflow tries; a later try runs the pages
    again that failed. Returns the numbers of the task. ``poll``: seconds."""

    template_fields = ("spider", "arguments")

    def __init__(
        self, *, spider: str, arguments: dict[str, Any] | None = None,
        connection: str = "crawlframe", poll: float = 30.0, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(**more)
        self.spider, self.arguments = spider, arguments or {}
        self.connection, self.poll = connection, poll

    def execute(self, context: Any) -> None:
        one = context["ti"]
        run = f"{one.dag_id} {one.run_id} {one.task_id} {one.map_index}"
        key = {"Idempotency-Key": hashlib.sha256(run.encode()).hexdigest()}
        wanted = {"spider": self.spider, "arguments": self.arguments}
        with httpx.Client(**api(self.connection)) as client:
            answer = client.post("tasks", json=wanted, headers=key)
            if answer.status_code not in (200, 201):
                raise AirflowException(answer.json()["error"]["message"])
            task = answer.json()
            if task["outcome"] == "failed":
                client.post(f"tasks/{task['id']}/retry", json=None).raise_for_status()
        trigger = CrawlTrigger(self.connection, task["id"], self.poll)
        self.defer(trigger=trigger, method_name="ended")

    def ended(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        if event["outcome"] in ("failed", "cancelled"):
            raise AirflowException(f"task {event['id']} {event['outcome']}: {event['reason']}")
        return event


class CrawlTrigger(BaseTrigger):
    """Fires when the task has ended."""

    def __init__(self, connection: str, crawl: int, poll: float) -> None:
        super().__init__()
        self.connection, self.crawl, self.poll = connection, crawl, poll

    def serialize(self) -> tuple[str, dict[str, Any]]:
        given = {"connection": self.connection, "crawl": self.crawl, "poll": self.poll}
        return f"{__name__}.CrawlTrigger", given

    async def run(self) -> AsyncIterator[TriggerEvent]:
        arguments = await asyncio.to_thread(api, self.connection)
        async with httpx.AsyncClient(**arguments) as client:
            while True:
                try:
                    task = (await client.get(f"tasks/{self.crawl}")).raise_for_status().json()
                except httpx.TransportError:  # the web is away: the crawl continues
                    task = {}
                if task.get("outcome") in ENDED:
                    names = ("id", "outcome", "reason", "nf", "ne", "items")
                    yield TriggerEvent({name: task[name] for name in names})
                    return
                await asyncio.sleep(self.poll)
