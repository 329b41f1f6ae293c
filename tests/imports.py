"""Imports of packages that a test writes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


def forget(package: str) -> None:
    """Removes the package and its modules from those that this process has imported."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]


@contextlib.contextmanager
def undone(package: str) -> Iterator[None]:
    """Afterwards the process has not imported ``package``, and its path is as before: another test
    may write a package of that name."""
    path = [*sys.path]
    try:
        yield
    finally:
        sys.path[:] = path
        forget(package)
