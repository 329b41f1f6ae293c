"""IdentityRefresh: how a worker gets its keys and credentials, and follows their changes."""

from __future__ import annotations

import logging
from collections.abc import Callable

from crawlframe.errors import ConfigError
from crawlframe.identity.identity import Identity, Papers
from crawlframe.run.ledger import AccessLedger, LedgerAway, LedgerRefused

log = logging.getLogger(__name__)

READ_SECONDS = 5.0  # seconds between two reads


class IdentityRefresh:
    """``later`` runs a job on the thread that owns the ledger, ``back`` one in the event loop."""

    def __init__(
        self,
        identity: Identity,
        ledger: AccessLedger,
        later: Callable[[Callable[[], None]], None],
        back: Callable[[Callable[[], None]], object],
    ) -> None:
        self._identity = identity
        self._ledger = ledger
        self._later = later
        self._back = back
        self._next = READ_SECONDS
        self._asked = False

    def load_first(self) -> None:
        """Loads the credentials on the ledger's thread: nothing is fetched without them. Raises
        LedgerAway, and ConfigError if this node cannot read them."""
        if not self._identity.is_loaded:
            self._identity.load(self._ledger.identity())

    def tick(self, now: float) -> None:
        """Asks for changes when it is time. ``now``: seconds since the worker began."""
        if now >= self._next and not self._asked and self._identity.is_loaded:
            self._next, self._asked = now + READ_SECONDS, True
            self._later(self._read)

    def _read(self) -> None:
        try:
            papers = self._ledger.identity()
        except (LedgerAway, LedgerRefused, ConfigError) as error:
            log.warning("keys and credentials stay as they were: %s", error)
            self._back(self._answered)
        else:
            self._back(lambda: self._answered(papers))

    def _answered(self, papers: Papers | None = None) -> None:
        self._asked = False
        if papers is not None:
            self._identity.load(papers)
