"""Writer: sends batches to one target."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple, Protocol

from crawlframe.errors import CrawlframeError
from crawlservice.exports.batch import Batch, Limits


class TargetError(CrawlframeError):
    """The target did not take a batch."""


class BatchName(NamedTuple):
    """The same for every attempt to send a batch, and for no other batch. ``number`` is the id of
    the export, since its name may have been that of a deleted one; ``run`` counts how often it was
    started again. ``first`` and ``last`` are the row numbers that the batch covers, whether or not
    there still are rows of these numbers."""

    export: str
    number: int
    run: int
    first: int
    last: int

    @property
    def producer(self) -> str:
        """The same for all batches of the export."""
        return f"{self.export}.{self.number}"

    @property
    def series(self) -> str:
        """The same for all batches of the run."""
        return f"{self.producer}.{self.run}"

    def __str__(self) -> str:
        return f"{self.series}.{self.first:012d}-{self.last:012d}"


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
