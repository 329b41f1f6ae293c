"""Access of the ledger: keys, credentials and proxies of this installation."""

from __future__ import annotations

from crawlframe.identity.identity import Papers
from crawlframe.run.ledger import AccessLedger, StoredProxy
from crawlservice.identity.papers import StoredPapers
from crawlservice.ledger.named_errors import with_named_errors
from crawlservice.proxies.pool import StoredProxies


@with_named_errors
class AccessRows(AccessLedger):
    """Rows about access of hosts, on this thread's connection."""

    def __init__(self) -> None:
        self._papers = StoredPapers()
        self._proxies = StoredProxies()

    def identity(self) -> Papers:
        return self._papers.read()

    def proxies(self) -> list[StoredProxy]:
        return self._proxies.read()
