"""RecipeRefresh: how a worker follows changes of the recipes of its tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable

from crawlframe.run.ledger import LedgerAway, LedgerRefused, TaskLedger

log = logging.getLogger(__name__)


class RecipeRefresh:
    """Looks for new versions of recipes. ``tasks``: task -> name and version of its recipe. When
    there is another version, ``forget`` is called with the task: requests that start later run with
    it, as after a reload. The task is no longer followed then: its next request adds it again.
    ``later`` runs a job on the thread that owns the ledger, ``back`` in the event loop."""

    def __init__(
        self,
        tasks: dict[int, tuple[str, int]],
        ledger: TaskLedger,
        forget: Callable[[int], None],
        later: Callable[[Callable[[], None]], None],
        back: Callable[[Callable[[], None]], object],
    ) -> None:
        self._tasks = tasks
        self._ledger = ledger
        self._forget = forget
        self._later = later
        self._back = back
        self._asked = False

    def tick(self) -> None:
        """Asks for changes, if a task has a recipe. Called once a second."""
        if self._tasks and not self._asked:
            self._asked = True
            names = {name for name, _ in self._tasks.values()}
            self._later(lambda: self._read(names))

    def _read(self, names: set[str]) -> None:
        found: dict[str, int] = {}
        try:
            found = self._ledger.recipe_numbers(names)
        except (LedgerAway, LedgerRefused) as error:
            log.warning("recipes stay as they were: %s", error)
        self._back(lambda: self._answered(found))

    def _answered(self, found: dict[str, int]) -> None:
        self._asked = False
        for task, (name, number) in [*self._tasks.items()]:
            if found.get(name, number) != number:
                log.info("task %d continues with version %d of recipe %s", task, found[name], name)
                del self._tasks[task]
                self._forget(task)
