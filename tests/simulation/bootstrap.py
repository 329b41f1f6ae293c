"""Bootstrap: makes this process a simulation. Imported before the product."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

MEMORY = Path("/dev/shm")

if TYPE_CHECKING:
    from tests.simulation.cluster import Setup


@contextmanager
def prepared() -> Iterator[Setup]:
    """Replaces the system below the product, and yields the parts that all seeds share."""
    for name in [name for name in os.environ if name.startswith("CRAWLFRAME_")]:
        del os.environ[name]
    os.environ.pop("DATABASE_URL", None)
    memory = MEMORY if MEMORY.is_dir() else None
    directory = tempfile.mkdtemp(prefix="simulation-", dir=memory)
    os.environ["CRAWLFRAME_VAR_DIR"] = directory
    os.environ["REDIS_URL"] = "redis://simulated"
    os.environ["DJANGO_SETTINGS_MODULE"] = "crawlservice.settings"
    from tests.simulation import interpreter

    interpreter.install()
    # Greenlets that are killed are not taken off the depth that Python 3.11 counts for the hub.
    sys.setrecursionlimit(10_000_000)
    import django

    django.setup()
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # it tells of tasks that were killed
    from tests.simulation import database, node
    from tests.simulation.cluster import Setup

    database.install()
    node.install()
    try:
        setup = Setup()
        gc.freeze()
        gc.disable()  # campaign.py collects between two seeds
        yield setup
    finally:
        shutil.rmtree(directory, ignore_errors=True)
