"""StoredRenders: knowledge of all nodes about templates, in a worker, which follows its changes."""

from __future__ import annotations

import time
from collections.abc import Callable

from crawlframe.node.worker.commit.stores import Stores
from crawlframe.node.worker.fetch.rendering import RenderSource
from crawlframe.render.knowledge import UNKNOWN, Knowledge
from crawlframe.render.template import URLTemplate

READ_SECONDS = 0.4  # seconds between two reads of the used spiders
IDLE_SECONDS = 30.0  # seconds after which a spider is no longer followed

Found = dict[URLTemplate, Knowledge]


class StoredRenders(RenderSource):
    """``clock`` returns seconds since the epoch."""

    def __init__(self, stores: Stores, clock: Callable[[], float] = time.time) -> None:
        self._stores = stores
        self._clock = clock
        self._known: dict[str, Found] = {}  # by spider
        self._last: dict[str, float] = {}  # when it was used

    async def find(self, spider: str, template: URLTemplate) -> Knowledge:
        now = self._clock()
        self._last[spider] = now
        if spider not in self._known:
            renders = self._stores.frontier.renders
            found = await self._stores.ask(lambda: renders.of(spider))
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
        what = "renders of templates"
        await self._stores.follow(READ_SECONDS, self._used, self._read, self._take, what)

    def _used(self) -> bool:
        """Forgets spiders that are not used any more; returns whether there are others."""
        now = self._clock()
        for spider in [name for name, used in self._last.items() if now - used > IDLE_SECONDS]:
            del self._last[spider]
            self._known.pop(spider, None)
        return bool(self._known)

    def _read(self) -> dict[str, Found]:
        return {spider: self._stores.frontier.renders.of(spider) for spider in [*self._known]}

    def _take(self, found: dict[str, Found]) -> None:
        self._known |= {spider: some for spider, some in found.items() if spider in self._known}
