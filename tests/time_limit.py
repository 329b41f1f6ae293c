"""Time limit: a test that takes longer ends its process, and the stacks of all threads are written
to standard error. pytest-timeout would write them to standard output, which processes of xdist do
not have. Tests with processes have more time, because a busy machine makes none of them fail."""

from __future__ import annotations

import faulthandler
import os
import threading
from typing import Any

import pytest

OF_PROCESSES = 600  # seconds, for a test with the mark "process"


class TimeLimit:
    """A plug-in of pytest; make it while the output is not captured."""

    def __init__(self) -> None:
        self._stderr = os.dup(2)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if item.get_closest_marker("process") and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(OF_PROCESSES))

    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: Any, settings: Any) -> bool:
        timer = threading.Timer(settings.timeout, self._end, [item.nodeid, settings.timeout])
        timer.daemon = True
        timer.start()
        item.cancel_timeout = timer.cancel  # pytest-timeout calls it
        return True

    def _end(self, test: str, seconds: float) -> None:
        os.write(self._stderr, f"{test} takes longer than {seconds:.0f} s\n".encode())
        faulthandler.dump_traceback(self._stderr)
        os._exit(1)
