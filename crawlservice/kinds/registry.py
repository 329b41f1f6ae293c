"""The registry of kinds: finds the modules of a package of ours, and the entry points of installed
packages."""

from __future__ import annotations

import logging
import pkgutil
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, TypeVar

log = logging.getLogger(__name__)


class Named(Protocol):
    @property
    def name(self) -> str: ...


K = TypeVar("K", bound=Named)


def find(package: str, group: str, kind: type[K]) -> dict[str, K]:
    """The kinds by name: those in the modules of a ``package``, and the entry points of a
    ``group``. An entry point that cannot be used is left out, and logged as an error: it must not
    take the others with it."""
    folder = import_module(package)
    found: dict[str, K] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        values = vars(import_module(f"{package}.{module.name}")).values()
        found |= {one.name: one for one in values if isinstance(one, kind)}
    for point in sorted(entry_points(group=group), key=lambda point: point.name):
        try:
            one = point.load()
            if not isinstance(one, kind):
                raise TypeError(f"it is no {kind.__name__}")
            if one.name != point.name or one.name in found:
                raise ValueError(f"its name {one.name!r} is taken, or not that of the entry point")
        except Exception as error:
            log.error("%s: %s = %s is left out: %s", group, point.name, point.value, error)
        else:
            found[one.name] = one
    return found
