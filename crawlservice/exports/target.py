"""Target: where an export writes. Each kind is one module of ``targets/``, or of an installed
package (docs/howto/exports.md)."""

from __future__ import annotations

import importlib.util
import json
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Protocol

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field

from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.fetch.names.address_guard import AddressGuard
from crawlservice.exports.addresses import Address
from crawlservice.exports.source import CHUNK, ExportRow
from crawlservice.kinds import registry
from crawlservice.tasks.results.column_types import Kinds, add

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise


GROUP = "crawlframe.export_targets"  # of entry points: NAME = "module:TARGET"
Text = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]


class Limits(NamedTuple):
    """When a batch is complete: at so many rows, bytes as JSON lines, or when its oldest row has
    that age. ``columns``: how many the target can have; 0: it has none."""

    rows: int
    bytes: int
    age: timedelta = timedelta(0)
    columns: int = 0


class TooManyColumns(CrawlframeError):
    """The rows have more fields than the target can have columns."""


class ExportBatch:
    """``last``: the number of its last row. ``kinds``: the columns, first the columns of earlier
    batches; empty for a target without columns."""

    def __init__(self, kinds: Kinds, columns: int = 0) -> None:
        """``columns``: see Limits."""
        self.last = self.rows = self.bytes = 0
        self.oldest: datetime | None = None
        self.kinds = dict(kinds) if columns else {}
        self._columns = columns
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this

    def add(self, row: ExportRow) -> None:
        """Adds the next row. Raises TooManyColumns, and OSError if the disk is full."""
        if self._columns:
            add(self.kinds, [row.record])
            if len(self.kinds) > self._columns:
                raise TooManyColumns(
                    f"the rows up to {row.number} have more than {self._columns:,} fields, and the "
                    "target one column for each; choose fields of the export"
                )
        line = json.dumps(row.record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        self._file.write(line)
        self.last = row.number
        self.oldest = min(self.oldest or row.stored_at, row.stored_at)
        self.rows += 1
        self.bytes += len(line)

    def is_full(self, limits: Limits) -> bool:
        return self.rows >= limits.rows or self.bytes >= limits.bytes

    def is_due(self, limits: Limits, now: datetime) -> bool:
        """Whether it is to be sent. ``now`` is the database's."""
        old = self.oldest is not None and self.oldest + limits.age <= now
        return self.is_full(limits) or old

    def chunks(self) -> Iterator[list[dict[str, Any]]]:
        """The records, read again each time."""
        self._file.seek(0)
        some: list[dict[str, Any]] = []
        for line in self._file:
            some.append(json.loads(line))
            if len(some) == CHUNK:
                yield some
                some = []
        if some:
            yield some

    def close(self) -> None:
        self._file.close()


class TargetConfig(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


@dataclass(frozen=True)
class FormField:
    """How the admin asks for a field of a target; part of the annotation of the field. ``lines``:
    of a text that has several."""

    label: str | _StrPromise
    help: str | _StrPromise = ""
    lines: int = 0


class Target(TargetConfig):
    """The definition of one target. A kind adds its fields, and ``kind: Literal["its name"]``.
    ``SECRETS`` are the fields that are stored encrypted and shown masked; of ``url``, the password
    and for HTTP the query. ``SIGNS_WITH`` is the secret that signs messages: it is made where it
    is empty, and as it is not sent itself, it may stay if the target changes."""

    SECRETS: ClassVar[tuple[str, ...]] = ()
    SIGNS_WITH: ClassVar[str] = ""

    kind: str

    def check(self) -> None:
        """Checks rules that types cannot express. Raises BadExport."""

    @property
    def destination(self) -> Address:
        """The address that secrets are entered for: they are not kept if it changes."""
        raise NotImplementedError

    def open(self, node: Settings, installation: str) -> Writer:
        """The writer for it. ``installation``: its id, for keys that no two installations share.
        Raises TargetError."""
        raise NotImplementedError

    @classmethod
    def place(cls, shown: Mapping[str, Any]) -> str:
        """A target in one line. ``shown``: its fields without secrets."""
        return str(shown["url"])


@dataclass(frozen=True)
class TargetKind:
    """One kind of target. ``title``: in the form."""

    name: str
    title: str | _StrPromise
    definition: type[Target]


@cache
def kinds() -> dict[str, TargetKind]:
    """All of them by name."""
    package = f"{__name__.rpartition('.')[0]}.targets"
    return dict(sorted(registry.find(package, GROUP, TargetKind).items()))


def place_of(shown: Mapping[str, Any]) -> str:
    """A stored target in one line."""
    known = kinds().get(shown["kind"])
    return known.definition.place(shown) if known else str(shown["kind"])


class TargetError(CrawlframeError):
    """The target did not take a batch."""


class BatchName(NamedTuple):
    """A name for every attempt to send one batch, and for no other batch. ``number`` is the id of
    the export, since its name may have been a deleted export's; ``run`` counts how often it was
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

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        """Sends all of it or nothing, and may be called again for the same one. Returns where it
        is, to be shown. Raises TargetError and whatever its library raises."""

    def test(self, name: BatchName, empty: ExportBatch) -> None:
        """Raises as ``send`` does if the target cannot be reached and written. Leaves no row."""

    def close(self) -> None:
        """Closes connections. Never raises."""


def address_of(host: str | None) -> str:
    """An IP address of the host of a target, to connect to. Raises TargetError if it has one that
    is neither public nor in a network that CRAWLFRAME_WEBHOOK_PRIVATE names."""
    node = settings.CRAWLFRAME
    guard = AddressGuard((*node.allow_private, *node.webhook_private))
    try:
        found = [info[4][0] for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        raise TargetError(f"{host} has no address: {error}") from None
    if not host or not all(map(guard.allows, map(str, found))):
        raise TargetError(
            f"the address of {host} is not public; if it may be sent to, name its network in "
            "CRAWLFRAME_WEBHOOK_PRIVATE"
        )
    return str(found[0])


def need(module: str, extra: str) -> None:
    """Raises TargetError if an optional dependency is not installed."""
    if importlib.util.find_spec(module) is None:
        raise TargetError(
            f"this target needs {module}, which is not installed; run on all nodes: "
            f"pip install 'crawlframe[{extra}]'"
        )
