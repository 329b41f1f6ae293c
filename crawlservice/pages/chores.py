"""Chores of kept pages: their segments."""

from __future__ import annotations

from crawlservice.chores.chore import Chore, ChoreContext
from crawlservice.chores.threads import ChoreThread
from crawlservice.pages.segments import segments_of_node


class Segments:
    """Finishes and uploads the segments of a node, if pages are kept in files."""

    def __init__(self, _steward: ChoreContext) -> None:
        segments = self._segments = segments_of_node()
        self._thread: ChoreThread | None = None
        if segments is not None:
            self._thread = ChoreThread("segments of pages", lambda: segments)

    def tick(self) -> None:
        if self._thread is not None:
            self._thread.ensure_running()

    def stop(self) -> None:
        """Does a last round now, so that other nodes can read the pages of this one."""
        if self._segments is not None and self._thread is not None:
            self._thread.stop()
            self._segments.finish()


CHORES = (Chore("segments of pages", Segments, everywhere=True),)
