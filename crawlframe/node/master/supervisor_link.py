"""SupervisorLink: the master's end of the line to the supervisor above it."""

from __future__ import annotations

import os
import select
import sys
import time

from crawlframe.errors import ConfigError
from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.rollouts import branch_of, concerns
from crawlframe.node.channel import ChannelClosed
from crawlframe.node.supervisor_messages import (
    FromMaster,
    FromMasterLine,
    Hello,
    HelloReply,
    InitialState,
    RolloutAnnounced,
    StillLoading,
    ToMaster,
)

PROGRESS = 1.0  # seconds between two signs of life while code is loaded
GREETING = 30.0  # seconds within which the supervisor must answer


class SupervisorLink:
    """``gone`` is true when the supervisor has ended."""

    def __init__(self, channel: FromMasterLine) -> None:
        self.channel = channel
        self.beside: tuple[int, ...] = ()
        self.gone = False
        self._branch = ""  # the branch that the checkout follows
        self._rollout = 0  # id of the last rollout that was forwarded
        self._next_progress = 0.0
        self._early: list[ToMaster] = []

    def shake_hands(self, framework: list[str]) -> InitialState:
        """Reports that all is imported, with the paths of the framework, and waits for the
        supervisor to confirm that nothing has changed since and to send the initial state. Raises
        ConfigError when it does not."""
        self.send(Hello(framework))
        give_up = time.monotonic() + GREETING
        welcomes: list[HelloReply] = []
        while not welcomes:
            left = max(0.0, give_up - time.monotonic())
            if not select.select([self.channel], [], [], left)[0]:
                raise ConfigError("no supervisor answers; start runcrawler --reload")
            try:
                messages = self.channel.receive()
            except ChannelClosed:
                raise ConfigError("the supervisor ended before this master began") from None
            welcomes = [message for message in messages if isinstance(message, HelloReply)]
            self._early += [message for message in messages if not isinstance(message, HelloReply)]
        initial = welcomes[0].state
        self.beside = tuple(initial.beside)
        self._branch, self._rollout = branch_of(initial.follows), initial.rollout
        return initial

    def receive(self) -> list[ToMaster]:
        """The supervisor's messages."""
        early, self._early = self._early, []
        try:
            return [*early, *self.channel.receive()]
        except ChannelClosed:
            self.gone = True
            return early

    def send(self, message: FromMaster) -> None:
        try:
            self.channel.send(message)
        except ChannelClosed:
            self.gone = True

    def send_progress(self, now: float) -> None:
        """Reports that the code is still being loaded, at most once a second."""
        if now >= self._next_progress:
            self._next_progress = now + PROGRESS
            self.send(StillLoading())

    def forward_rollout(self, frontier: Frontier, node: str) -> None:
        """Forwards a rollout that the service announced to this node, once."""
        if not self._branch:
            return
        rollout = frontier.rollouts.of(node, self._branch)
        if rollout is not None and concerns(rollout, node, self._branch, self._rollout):
            self._rollout = rollout.id
            self.send(RolloutAnnounced(rollout))


def release_output(fd: int) -> None:
    """Redirects standard error to ``fd`` again, after writing out the captured text."""
    sys.stderr.flush()
    size = os.lseek(2, 0, os.SEEK_CUR)
    if size:
        os.write(fd, os.pread(2, size, 0))
    os.dup2(fd, 2)
    os.close(fd)
