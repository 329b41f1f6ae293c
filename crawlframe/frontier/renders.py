"""Renders: which templates of a spider's pages need the browser, as all nodes have learned it."""

from __future__ import annotations

import os
from collections.abc import Iterable

from crawlframe.frontier.client.partitions import pack
from crawlframe.frontier.client.rows import StorePart
from crawlframe.render.knowledge import Knowledge, URLTemplate
from crawlframe.render.yielded import Taught


class Renders(StorePart):
    """The knowledge of one cluster. Raises redis.RedisError."""

    def learn(self, spider: str, pages: Iterable[Taught]) -> None:
        """Adds lessons of these pages."""
        name = os.urandom(8).hex()
        for partition, mine in self._store.split(pages, lambda page: page.template.host):
            entries = [[_field(one.template), str(one.lesson), int(one.items)] for one in mine]
            self._store.run("learn", partition, spider, name, pack(entries))

    def of(self, spider: str) -> dict[URLTemplate, Knowledge]:
        """The knowledge about the templates of a spider."""
        found: dict[URLTemplate, Knowledge] = {}
        for partition in range(self._store.partitions):
            found.update(self._rows.read_hash("RENDER", _row, spider, partition))
        return found

    def forget(self, spider: str, template: URLTemplate | None = None) -> None:
        """Forgets the knowledge about a template, or about all of them."""
        for keys in self._store.keys:
            if template is None:
                self._store.redis.delete(keys("RENDER", spider))
            else:
                self._store.redis.hdel(keys("RENDER", spider), _field(template))


def _field(template: URLTemplate) -> str:
    return f"{template.callback} {template.form}"


def _row(field: bytes, value: bytes) -> tuple[URLTemplate, Knowledge]:
    callback, _, form = field.decode().partition(" ")
    numbers = [int(number) for number in value.split(b" ")[0].split(b",")]
    if len(numbers) != len(Knowledge._fields):
        raise ValueError(f"it has {len(numbers)} numbers")
    return URLTemplate(callback, form), Knowledge(*numbers)
