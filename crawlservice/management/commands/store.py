"""store: the database, Redis, the file store and the page cache of this installation."""

from __future__ import annotations

from crawlservice.cli.noun import Noun
from crawlservice.cli.store.audit import Audit, Reconcile
from crawlservice.cli.store.cache import ClearCache, ShowCache
from crawlservice.cli.store.files import CheckFiles, PruneFiles
from crawlservice.cli.store.installation import RenewId, ShowStore, TakeOver
from crawlservice.cli.store.quarantine import ClearQuarantine, ListQuarantine
from crawlservice.cli.store.reseal import Reseal


class Command(Noun):
    verbs = {
        "show": ShowStore,
        "take-over": TakeOver,
        "new-id": RenewId,
        "audit": Audit,
        "reconcile": Reconcile,
        "reseal": Reseal,
        "quarantine": ListQuarantine,
        "clear-quarantine": ClearQuarantine,
        "check-files": CheckFiles,
        "prune-files": PruneFiles,
        "cache": ShowCache,
        "clear-cache": ClearCache,
    }
