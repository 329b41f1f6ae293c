"""Wards: the masters of one supervisor, and which of them is what."""

from __future__ import annotations

import os
import selectors
import signal
from collections.abc import Iterator

from crawlframe.node.ward import Ward


class Wards:
    """They are registered with ``selector``, each with itself as the data."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._selector = selector
        self._all: list[Ward] = []

    def __iter__(self) -> Iterator[Ward]:
        return iter([*self._all])

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, ward: Ward) -> None:
        self._all.append(ward)
        self._selector.register(ward.channel, selectors.EVENT_READ, ward)

    def remove(self, ward: Ward) -> None:
        self._all.remove(ward)
        self._selector.unregister(ward.channel)
        ward.channel.close()

    @property
    def present(self) -> Ward | None:
        """The master that runs the node: the one that serves, else the oldest."""
        staying = [ward for ward in self._all if not ward.leaving]
        return next((ward for ward in staying if ward.serving), staying[0] if staying else None)

    @property
    def successor(self) -> Ward | None:
        """The one that is to follow it."""
        present = self.present
        others = (ward for ward in self._all if not ward.leaving and ward is not present)
        return next(others, None)

    @property
    def only(self) -> Ward | None:
        """The present one, when it serves, and no other lives, and no message is half read."""
        present = self.present
        calm = present is not None and present.serving and present.channel.idle
        return present if calm and len(self._all) == 1 else None

    def dead(self) -> Iterator[tuple[Ward, int]]:
        """Those that have ended since the last question, with their exit codes."""
        for ward in self:
            pid, status = os.waitpid(ward.pid, os.WNOHANG)
            if pid:
                yield ward, os.waitstatus_to_exitcode(status)

    def stop(self, *, again: bool) -> None:
        """All are to stop; a master that is asked again gives up what it is fetching."""
        for ward in self._all:
            if again or not ward.leaving:
                ward.signal(signal.SIGTERM)
