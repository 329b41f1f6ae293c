"""Oversight: the line between a master and the supervisor above it, as the master holds it."""

from __future__ import annotations

import os
import select
import sys
import time
from typing import Any

import msgspec

from crawlframe.errors import ConfigError
from crawlframe.frontier import Frontier
from crawlframe.frontier.rollouts import branch_of, concerns
from crawlframe.node.channel import Channel, ChannelClosed
from crawlframe.node.handshake import Welcome
from crawlframe.node.master.code_reload import Renewal
from crawlframe.node.master.template import Loaded

PROGRESS = 1.0  # seconds between two signs of life while code is loaded
GREETING = 30.0  # seconds until the supervisor must have said who it is


class Oversight:
    """``gone`` is true when the supervisor has ended."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.beside: tuple[int, ...] = ()
        self.gone = False
        self._branch = ""  # that the checkout follows
        self._rollout = 0  # id of the last one that was passed on
        self._next_progress = 0.0
        self._early: list[list[Any]] = []

    def greet(self, renewal: Renewal) -> None:
        """Says that all is imported, and waits until the supervisor says that nothing changed
        meanwhile and how things stand. Raises ConfigError when it does not."""
        self.tell("hello")
        messages: list[list[Any]] = []
        while not messages:
            if not select.select([self.channel], [], [], GREETING)[0]:
                raise ConfigError("no supervisor speaks; start runcrawler --reload")
            try:
                messages = self.channel.receive()
            except ChannelClosed:
                raise ConfigError("the supervisor ended before this master began") from None
        (_, fields), *rest = messages
        self._early = rest
        welcome = msgspec.convert(fields, Welcome)
        self.beside = tuple(welcome.beside)
        self._branch, self._rollout = branch_of(welcome.follows), welcome.rollout
        renewal.follow(welcome)

    def receive(self) -> list[list[Any]]:
        """What it says: ("prepare", changed_at), ("forget",), ("ask", changed_at,
        digest, revision), ("refuse", version, problem), ("pulled", revision,
        problem, rollout), ("report",), ("replay",), ("hand over",)."""
        early, self._early = self._early, []
        try:
            return [*early, *self.channel.receive()]
        except ChannelClosed:
            self.gone = True
            return early

    def tell(self, *message: Any) -> None:
        try:
            self.channel.send(*message)
        except ChannelClosed:
            self.gone = True

    def tell_progress(self) -> None:
        """The code is still being loaded; once a second is enough."""
        if time.monotonic() >= self._next_progress:
            self._next_progress = time.monotonic() + PROGRESS
            self.tell("progress")

    def tell_code(self, code: Renewal) -> None:
        """Which code lives and what became of the last change."""
        self.tell("code", msgspec.to_builtins(code.state), summary(code.accepted))

    def tell_rollout(self, frontier: Frontier, node: str) -> None:
        """Passes on what the service announced to this node, once."""
        if not self._branch:
            return
        rollout = frontier.rollouts.of(node, self._branch)
        if rollout is not None and concerns(rollout, node, self._branch, self._rollout):
            self._rollout = rollout.id
            self.tell("rollout", msgspec.to_builtins(rollout))


def summary(loaded: Loaded | None) -> dict[str, Any] | None:
    """What the supervisor needs to know of loaded code."""
    if loaded is None:
        return None
    return {
        "digest": loaded.digest,
        "revision": loaded.revision,
        "tree": loaded.tree,
        "files": loaded.files,
        "broken": list(loaded.broken),
    }


def release_output(fd: int) -> None:
    """From here on standard error is ``fd`` again, what was captured first."""
    sys.stderr.flush()
    size = os.lseek(2, 0, os.SEEK_CUR)
    if size:
        os.write(fd, os.pread(2, size, 0))
    os.dup2(fd, 2)
    os.close(fd)
