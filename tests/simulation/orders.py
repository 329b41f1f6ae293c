"""Orders: the crawls of a seed, and their users' later decisions."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from crawlservice.models import Task
from crawlservice.tasks import submit


class Order(NamedTuple):
    """What a user asks for at a time. ``task``: its number, of orders after its submission."""

    at: float  # seconds
    verb: str  # submit, pause, resume, cancel
    task: int
    arguments: dict[str, int]
    settings: dict[str, Any] = {}  # of the submission, in place of the spider's own

    def carry_out(self) -> None:
        """Raises CrawlframeError."""
        if self.verb == "submit":
            submit.submit("walk", self.arguments, settings=self.settings)
        else:
            getattr(submit, self.verb)(self.task)


class Pace(NamedTuple):
    """Politeness of all tasks of a seed."""

    delay: float | str  # seconds between two requests of a host, or auto
    concurrency: int  # requests of a host at a time


PACES = (Pace(0.05, 2), Pace(0.05, 2), Pace(0.0, 1), Pace(0.0, 4), Pace(0.2, 1), Pace("auto", 2))


def drawn_orders(
    chance: random.Random, length: float, seed: int, pace: Pace, sizes: Sequence[int]
) -> Iterator[Order]:
    """The orders of one seed. Tasks get their numbers in the order of submission."""
    begins = sorted(chance.uniform(0.0, 0.8 * length) for _ in range(chance.choice((2, 3, 4))))
    for task, at in enumerate(begins, 1):
        size, hosts = chance.choice(sizes), chance.choice((1, 3, 8))
        arguments = {"size": size, "hosts": hosts, "seed": seed + task}
        fate = chance.choice(("", "", "", "limit", "cancel", "pause"))
        more = {"page_limit": size // 2} if fate == "limit" else {}
        more |= {"layers": 100} if chance.random() < 0.2 else {}
        yield Order(at, "submit", task, arguments, pace._asdict() | more)
        later = at + chance.uniform(0.1, 5.0)
        if fate == "cancel":
            yield Order(later, "cancel", task, {})
        if fate == "pause":
            yield Order(later, "pause", task, {})
            yield Order(later + chance.uniform(0.1, 5.0), "resume", task, {})


def resume_all() -> None:
    """For users whose order to resume a task failed."""
    for task in Task.objects.filter(state=Task.State.PAUSED):
        submit.resume(task.pk)
