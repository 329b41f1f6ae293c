"""Chores of exports: the file that defines some, and a thread for each."""

from __future__ import annotations

from functools import partial

from crawlservice.chores.chore import Calls, Chore, ChoreContext
from crawlservice.chores.threads import ChoreThreads
from crawlservice.exports.file import LOOK_SECONDS, ExportsFile
from crawlservice.models import Export


class Exports:
    """Carries all exports on."""

    def __init__(self, steward: ChoreContext) -> None:
        self._settings = steward.settings
        self._threads = ChoreThreads()

    def tick(self) -> None:
        """Raises django.db.Error."""
        if found := [*Export.active_ones().values_list("pk", "name")]:
            # Imported here: most nodes never need it, and it takes memory.
            from crawlservice.exports.exporter import Exporter

            works = {f"export {name}": partial(Exporter, pk, self._settings) for pk, name in found}
            self._threads.ensure_running(works)

    def stop(self) -> None:
        self._threads.stop()


CHORES = (
    Chore(
        "the file of exports",
        lambda steward: Calls(ExportsFile(steward.settings).look),
        period=LOOK_SECONDS,
    ),
    Chore("exports", Exports, used=lambda: [Export.active_ones()]),
)
