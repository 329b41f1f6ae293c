"""Target: where an export writes. Each kind is one module of ``targets/``, or of an installed
package (docs/howto/exports.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from crawlframe.conf import Settings
from crawlservice.exports.addresses import Address
from crawlservice.exports.writer import Writer
from crawlservice.kinds import registry

if TYPE_CHECKING:
    from django.utils.functional import _StrPromise

GROUP = "crawlframe.export_targets"  # of entry points: NAME = "module:TARGET"

Text = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]


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
    and for HTTP the query. ``SIGNS_WITH`` is the one of them that signs what is sent: it is made
    where it is empty, and as it is not sent itself, it may stay if the target changes."""

    SECRETS: ClassVar[tuple[str, ...]] = ()
    SIGNS_WITH: ClassVar[str] = ""

    kind: str

    def check(self) -> None:
        """Raises BadExport for what the types do not say."""

    @property
    def destination(self) -> Address:
        """What secrets are entered for: they are not kept if it changes."""
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
    return dict(sorted(registry.find(package, "TARGET", GROUP, TargetKind).items()))


def place_of(shown: Mapping[str, Any]) -> str:
    """A stored target in one line."""
    known = kinds().get(shown["kind"])
    return known.definition.place(shown) if known else str(shown["kind"])
