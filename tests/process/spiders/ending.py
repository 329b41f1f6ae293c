"""A spider that counts, drops, closes its task, and has a last request."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from crawlframe import CloseTask, DropItem, Request, Response, Spider, Summary, TaskInfo


def not_odd(item: Any, response: Response | None) -> Any:
    if item.get("number", 0) % 2:
        raise DropItem("odd number")
    return item


class EndingSpider(Spider):
    """Fetches ``many`` pages. Its first ``closed`` dies if it ``dies``; each writes to ``seen``."""

    name = "ending"
    settings = {"concurrency": 16, "delay": 0, "retries": 1}
    pipelines = [not_odd]
    seen: str = ""
    dies: bool = False
    enough: int = 0  # the number of the page that closes the task

    def opened(self, task: TaskInfo) -> None:
        self.task = task.id

    def start(self, url: str, many: int = 10) -> Iterator[Request]:
        for number in range(1, many + 1):
            yield Request(f"{url}page/{number}", self.page, cb_kwargs={"number": number})

    def page(self, response: Response, number: int) -> Iterator[Any]:
        self.stats.inc("pages")
        self.stats.inc("sum", number)
        self.stats.max("largest", number)
        yield {"number": number}
        if number == self.enough:
            self.log.info("enough with %d", number)
            raise CloseTask(f"page {number} is enough")

    def closed(self, summary: Summary) -> Iterator[Any]:
        if self.seen:
            seen = Path(self.seen)
            first = not seen.exists()
            with seen.open("a") as file:
                file.write(f"{self.task} {summary.done}\n")
            if self.dies and first:
                os.kill(os.getpid(), signal.SIGKILL)
        yield {
            "outcome": summary.outcome,
            "reason": summary.reason,
            "requests": summary.requests,
            "done": summary.done,
            "items": summary.items,
            "stats": summary.stats,
            "maxima": summary.maxima,
        }
