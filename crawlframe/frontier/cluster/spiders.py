"""Spiders: the catalogue of spiders that the nodes have loaded, for the service to read."""

from __future__ import annotations

import msgspec

from crawlframe.frontier.client.rows import StorePart
from crawlframe.spider.spider import SpiderInfo


class SpiderCatalogue(StorePart):
    """The spiders of one cluster. Raises redis.RedisError."""

    def publish(self, infos: list[SpiderInfo]) -> None:
        """Publishes spiders to the service. Spiders not named stay as they are."""
        if infos:
            mapping = {info.name: msgspec.json.encode(info) for info in infos}
            self._store.redis.hset(self._store.keys[0]("SPIDERS"), mapping=mapping)

    def find(self, name: str) -> SpiderInfo | None:
        """The published description of a spider; None when there is none."""
        row = self._store.redis.hget(self._store.keys[0]("SPIDERS"), name)
        return row and self._rows.read_row("SPIDERS", name.encode(), row, _spider, None)

    def all(self) -> dict[str, SpiderInfo]:
        """The published spiders by name."""
        infos = {info.name: info for info in self._rows.read_hash("SPIDERS", _spider)}
        return dict(sorted(infos.items()))


def _spider(name: bytes, row: bytes) -> SpiderInfo:
    info = msgspec.json.decode(row, type=SpiderInfo, strict=False)
    if info.name != name.decode():
        raise ValueError(f"it belongs to spider {info.name!r}")
    return info
