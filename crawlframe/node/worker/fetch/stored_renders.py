"""StoredRenders: knowledge of all nodes about templates, in a worker, which follows its changes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from redis import RedisError

from crawlframe.errors import Fenced, FrontierError
from crawlframe.frontier import Frontier
from crawlframe.node.worker.commit.committer import Committer
from crawlframe.node.worker.fetch.rendering import RenderSource
from crawlframe.node.worker.task.task_source import on_commit_thread
from crawlframe.render.knowledge import UNKNOWN, Knowledge
from crawlframe.render.template import URLTemplate

log = logging.getLogger(__name__)

READ_SECONDS = 0.4  # seconds between two reads of the used spiders
IDLE_SECONDS = 30.0  # seconds after which a spider is no longer followed

Found = dict[URLTemplate, Knowledge]


class StoredRenders(RenderSource):
    """Reads Redis on the connection of the commit thread. ``clock`` returns seconds since the
    epoch."""

    def __init__(
        self, committer: Committer, frontier: Frontier, clock: Callable[[], float] = time.time
    ) -> None:
        self._committer = committer
        self._frontier = frontier
        self._clock = clock
        self._known: dict[str, Found] = {}  # by spider
        self._used: dict[str, float] = {}
        self._asked = False

    async def find(self, spider: str, template: URLTemplate) -> Knowledge:
        now = self._clock()
        self._used[spider] = now
        if spider not in self._known:
            found = await on_commit_thread(
                self._committer, lambda: self._frontier.renders.of(spider)
            )
            self._known.setdefault(spider, found)
        known = self._known.get(spider, {}).get(template, UNKNOWN)
        return known.at(round(1000 * now))

    def begin(self, spider: str, template: URLTemplate, *, direct: bool) -> None:
        """Counts the page until the next read, so that not all pages that start until then are
        fetched plainly."""
        found = self._known.get(spider, {})
        if (known := found.get(template)) is not None:
            found[template] = known._replace(skipped=known.skipped + 1 if direct else 0)

    async def watch(self) -> None:
        """Follows the changes, until it is cancelled."""
        while True:
            await asyncio.sleep(READ_SECONDS)
            self.tick()

    def tick(self) -> None:
        """Asks for changes of the used spiders, and forgets the rest."""
        now = self._clock()
        for spider in [name for name, used in self._used.items() if now - used > IDLE_SECONDS]:
            del self._used[spider]
            self._known.pop(spider, None)
        if self._known and not self._asked:
            self._asked = True
            self._committer.call(self._refresh)

    def _refresh(self) -> None:
        """Reads the templates, on the commit thread."""
        try:
            for spider in [*self._known]:
                found = self._frontier.renders.of(spider)
                if spider in self._known:
                    self._known[spider] = found  # replaced whole: two threads use it
        except Fenced:
            self._committer.leave()
        except (RedisError, FrontierError, OSError) as error:
            log.warning("what is known about templates stays as it was: %s", error)
        self._asked = False
