"""The participants of the ledger's transaction, in their order."""

from __future__ import annotations

from django.db import Error

from crawlframe.run.participant import Participants
from crawlservice.files.rows import PageFiles
from crawlservice.ledger.error_causes import ErrorGroups
from crawlservice.ledger.model_items.model_rows import ModelRows
from crawlservice.ledger.model_items.refused_rows import RowRefused
from crawlservice.ledger.model_items.replacement import Replacements
from crawlservice.pages.archived import ArchivedPageRows, archive
from crawlservice.pages.rows import PageRows
from crawlservice.proxies.runs import FoundProxies
from crawlservice.tasks.progress.budgets import Budgets, TaskClosing
from crawlservice.tasks.progress.stats import StatsOfPages
from crawlservice.watches.visits import Visits


def participants() -> Participants:
    """Participants of this thread's ledger, in the order in which all processes lock rows. A task
    is locked last, for it is shared by all its pages; budgets close tasks."""
    place = archive()
    return Participants(
        (
            ErrorGroups(),
            PageFiles(),
            PageRows() if place is None else ArchivedPageRows(place),
            ModelRows(),
            Replacements(),
            FoundProxies(),
            Visits(),
            StatsOfPages(),
            Budgets(),
            TaskClosing(),
        ),
        documented=(Error, RowRefused),
    )
