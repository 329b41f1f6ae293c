"""Rollouts: the revisions announced to the nodes that follow a branch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from crawlframe.frontier.client.partitions import PartitionedStore


class Rollout(msgspec.Struct, frozen=True):
    """An announcement; newer ones have larger ids."""

    revision: str  # hex digits: 40, or at least 12
    branch: str  # without the remote, whose name differs by checkout
    nodes: tuple[str, ...] = ()  # the nodes that it names; empty = all
    back: bool = False  # whether a node may go back to it
    before: str = ""  # the revision of a canary before it; "" when there is no canary
    id: int = 0  # Redis time in microseconds; set when it is announced

    @property
    def announced_at(self) -> float:
        """Unix time."""
        return self.id / 1e6


class Rollouts:
    """The newest announcement for all nodes, and for each node that was named since. So a node that
    starts late receives missed announcements, even if others were named in the meantime.

    Raises redis.RedisError."""

    def __init__(self, store: PartitionedStore) -> None:
        self._store = store
        from crawlframe.frontier.client.rows import Rows  # with Redis, which supervisors do without

        self._rows = Rows(store)

    def announce(self, rollout: Rollout) -> Rollout:
        """Announces a rollout to the nodes it names, or to all that follow the branch, instead of
        any earlier announcement to them. Returns it with its id."""
        text = msgspec.json.encode(rollout)
        number = self._store.run("announce", 0, text, rollout.branch, *rollout.nodes)
        return msgspec.structs.replace(rollout, id=int(number))

    def current(self) -> Rollout | None:
        """The newest announcement, whichever nodes it names; None when there is none."""
        return max(self._all(), key=lambda rollout: rollout.id, default=None)

    def of(self, node: str, branch: str | None = None) -> Rollout | None:
        """The newest announcement for a node and the branch it follows (None: any branch); None
        when there is none."""
        mine = (
            rollout
            for rollout in self._all()
            if branch in (None, rollout.branch) and (not rollout.nodes or node in rollout.nodes)
        )
        return max(mine, key=lambda rollout: rollout.id, default=None)

    def _all(self) -> Iterator[Rollout]:
        """Rows of the form ``<id>|<JSON>``; unreadable ones are set aside."""
        return self._rows.read_hash("ROLLOUT", _rollout)


def _rollout(_: bytes, row: bytes) -> Rollout:
    number, _sep, text = row.partition(b"|")
    rollout = msgspec.json.decode(text, type=Rollout)
    return msgspec.structs.replace(rollout, id=int(number))


def concerns(rollout: Rollout | None, node: str, branch: str, last_id: int) -> bool:
    """Whether a node that follows a branch (named without its remote) must act on an announcement.
    ``last_id``: of its last announcement, 0 before the first."""
    return (
        rollout is not None
        and rollout.id > last_id
        and rollout.branch == branch
        and (not rollout.nodes or node in rollout.nodes)
    )


def branch_of(follows: str) -> str:
    """``origin/main`` -> ``main``: ``CodeState.follows`` without the remote."""
    return follows.partition("/")[2]
