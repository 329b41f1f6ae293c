"""What spiders are told of their task when it is taken up and when it ends."""

from __future__ import annotations

from typing import Any, NamedTuple


class TaskInfo(NamedTuple):
    """A task, for ``opened``. ``arguments`` are as they were submitted."""

    id: int
    spider: str
    arguments: dict[str, Any]
    priority: int
