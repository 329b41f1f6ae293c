"""Writer: sends batches to one target."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple, Protocol

from crawlframe.errors import CrawlframeError
from crawlservice.exports.batch import Batch, Limits


class TargetError(CrawlframeError):
    """The target did not take a batch."""


class BatchName(NamedTuple):
    """The same for every attempt to send the same rows, and for no other ones. ``run`` counts how
    often the export was started again; ``first`` and ``last`` are numbers of rows."""

    export: str
    run: int
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.export}.{self.run}.{self.first:012d}-{self.last:012d}"


class Writer(Protocol):
    """``limits``: of its batches."""

    limits: Limits

    def send(self, name: BatchName, batch: Batch) -> str:
        """Sends all of it or nothing, and may be called again for the same one. Returns where it
        is, to be shown. Raises TargetError and whatever its library raises."""

    def close(self) -> None:
        """Lets go of connections. Never raises."""


def need(module: str, extra: str) -> None:
    """Raises TargetError if an optional dependency is not installed."""
    if importlib.util.find_spec(module) is None:
        raise TargetError(
            f"this target needs {module}, which is not installed; run on all nodes: "
            f"pip install 'crawlframe[{extra}]'"
        )
