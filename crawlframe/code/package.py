"""Package: finds the directory of the spiders without importing them."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path


def find_package(package: str) -> Path | None:
    """The directory of a package, found without importing it; None when there is none."""
    importlib.invalidate_caches()
    top, *parts = package.split(".")  # find_spec would import the parents of a dotted name
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    places = [Path(place, *parts) for place in spec.submodule_search_locations]
    return next(filter(Path.is_dir, places), None)
