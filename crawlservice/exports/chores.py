"""Chores of exports: the file that defines some, and a thread for each."""

from __future__ import annotations

from functools import partial

from crawlframe.conf import Settings
from crawlservice.chores.chore import Calls, Chore
from crawlservice.chores.threads import ChoreThreads, Make
from crawlservice.exports.file import LOOK_SECONDS, ExportsFile
from crawlservice.models import Export


def exporters(settings: Settings) -> dict[str, Make]:
    """The work of each export, by the name of its thread. Raises django.db.Error."""
    found = [*Export.active_ones().values_list("pk", "name")]
    if not found:
        return {}
    # Imported here: most nodes never need it, and it takes memory.
    from crawlservice.exports.exporter import Exporter

    return {f"export {name}": partial(Exporter, pk, settings) for pk, name in found}


CHORES = (
    Chore(
        "the file of exports",
        lambda steward: Calls(ExportsFile(steward.settings).look),
        period=LOOK_SECONDS,
    ),
    Chore(
        "exports",
        lambda steward: ChoreThreads(partial(exporters, steward.settings)),
        used=lambda: [Export.active_ones()],
    ),
)
