"""Nodes: work of the leading steward on Redis and on nodes that died, before all other chores."""

from __future__ import annotations

import logging
import time

from crawlservice.chores.chore import ChoreContext
from crawlservice.connections.contained import contained
from crawlservice.ledger.reconcile import replay
from crawlservice.ledger.recovery import is_whole, renew, uncounted
from crawlservice.monitoring import lives

log = logging.getLogger(__name__)

ROUND_SECONDS = 2.5  # seconds without a round that could replay dead generations


class RedisCheck:
    """Fills Redis again when it has lost data."""

    def __init__(self, steward: ChoreContext) -> None:
        self._steward = steward
        self._run: str | None = None  # the server's run_id

    def tick(self) -> None:
        """Raises redis.RedisError, FrontierError and django.db.Error."""
        frontier = self._steward.frontier
        run = frontier.store.redis.info("server").get("run_id")
        if run != self._run:  # it was restarted, or another server took over
            if self._run and (frontier.audit() or uncounted(frontier)):
                frontier.eras.doubt()
            self._run = run
        if not is_whole(frontier):
            renew(frontier, self._steward.still_here)


class DeadNodes:
    """Replays the requests of dead generations."""

    def __init__(self, steward: ChoreContext) -> None:
        self._steward = steward
        self._frontier, self._lease = steward.frontier, steward.settings.lease
        self._lives = lives.LivesMonitor(self._lease)
        self._patient_until = 0.0

    def tick(self) -> None:
        """Raises redis.RedisError, FrontierError and django.db.Error."""
        leases = self._frontier.leases.left()
        now = time.monotonic()
        if now - self._steward.last_whole > ROUND_SECONDS:
            # Living nodes could not renew their leases either, and get the time to do so.
            self._patient_until = now + self._lease
        for generation, left in leases.items():
            if left < 0 and now >= self._patient_until:
                self._steward.still_here()
                with contained(f"generation {generation}"):
                    self._replay(generation)
        if now >= self._patient_until:
            self._lives.tick(leases)

    def _replay(self, generation: int) -> None:
        held = self._frontier.leases.held([generation])[generation]
        lives.die(generation, held)  # first, so that it never disappears from the list
        moved = replay(self._frontier, generation)
        log.warning("generation %d is dead: %d requests replayed", generation, moved)
