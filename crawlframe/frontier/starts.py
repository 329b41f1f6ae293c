"""Starts: admits the requests of a task's root request while it still runs."""

from __future__ import annotations

from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.records import groups
from crawlframe.frontier.client.rows import StorePart
from crawlframe.request.request import Admission


class StartQueue(StorePart):
    """The parts that ``start`` yields. The root request stays in progress, so NR does not reach 0
    between two of them."""

    def push(
        self, root: bytes, host: str, task: int, number: int, follow_ups: list[Admission]
    ) -> bool:
        """Admits the part of this number, of at most MAX_ENTRIES requests; call it after the commit
        of the part. Repeating it changes nothing. ``host``: of the root request. Returns False if
        the root request is no longer pending. Raises FrontierError when Redis does not know the
        task."""
        home = self._store.partition_of(host)
        mine = dict(self._store.split(follow_ups, lambda one: one.host))
        packed = pack(groups(mine.pop(home, [])))
        parts = self._store.run("push", home, root, task, number, packed, 1)
        if parts < 0:
            return False
        if parts <= number:  # Redis was filled again, and did not count the parts
            self._store.run("admit", home, task, packed)
        for partition, some in mine.items():
            self._store.run("admit", partition, task, pack(groups(some)))
        return True
