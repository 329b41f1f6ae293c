"""ReloadReport: the state of this node's code, as the supervisor and the cluster know it."""

from __future__ import annotations

import logging
import time
from typing import Any

import msgspec

from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.node.master.supervisor_link import SupervisorLink
from crawlframe.node.messages import CodeLoaded
from crawlframe.node.supervisor_messages import CheckoutPulled, CodeReport, InitialState, Serving

log = logging.getLogger(__name__)


class ReloadReport:
    """Each change of ``state`` is sent to the supervisor, if there is one. ``loaded``: the last
    accepted code; it is live once a worker has it. ``now`` is time.monotonic()."""

    def __init__(self, link: SupervisorLink | None) -> None:
        self.state = CodeState(changed_at=time.time())
        self.loaded: CodeLoaded | None = None
        self._link = link
        self._awaited = False  # the first worker with the loaded code

    def update(self, **changes: Any) -> None:
        if changes.get("state", self.state.state) != self.state.state:
            changes = {"asks": False, "refused_by": "", **changes, "changed_at": time.time()}
        self.state = msgspec.structs.replace(self.state, **changes)
        self.send()

    def send(self) -> None:
        """Sends the live code and the result of the last change to the supervisor."""
        if self._link is not None:
            summary = self.loaded.summary if self.loaded else None
            self._link.send(CodeReport(self.state, summary))

    def send_progress(self, now: float) -> None:
        """Tells the supervisor that a version is still being loaded."""
        if self._link is not None:
            self._link.send_progress(now)

    def follow(self, initial: InitialState) -> None:
        """Continues from the state of the master that this one replaces."""
        self.update(
            follows=initial.follows,
            follow_every=initial.follow_every,
            pulled=initial.pulled,
            pull_problem=initial.pull_problem,
            rollout=initial.answered,
        )

    def pulled(self, pulled: CheckoutPulled) -> None:
        """The checkout was moved to a revision, or could not be."""
        self.update(pulled=pulled.revision, pull_problem=pulled.problem, rollout=pulled.rollout)

    def accept(self, loaded: CodeLoaded, problem: str) -> None:
        """Records an accepted version: it is live with its first worker. ``problem``: its problem;
        "" for none."""
        self.loaded, self._awaited = loaded, True
        self.update(candidate=loaded.version, problem=problem)

    def accept_again(self, loaded: CodeLoaded, problem: str) -> None:
        """Records that the last accepted version is the version on disk."""
        if self._awaited:
            self.update(candidate=loaded.version, problem=problem)
        else:
            self.update(state="live", candidate="", problem=problem)

    def worker_ready(self, changed_at: float | None, now: float) -> None:
        """A worker is ready; of the version accepted last, whose files were written at
        ``changed_at``, if that is not None."""
        if self._awaited and self.loaded is not None and changed_at is not None:
            self._awaited = False
            version, seconds = self.loaded.version, now - changed_at
            reloads = self.state.reloads + bool(self.state.version)  # the first is the start
            log.info("version %s is live after %.2f s", version, seconds)
            changes: dict[str, Any] = {}
            # Otherwise state and candidate belong to a later version.
            if self.state.state != "refused" and self.state.candidate == version:
                changes = {"state": "live", "candidate": ""}
            self.update(version=version, seconds=round(seconds, 3), reloads=reloads, **changes)
        if self._link is not None:
            self._link.send(Serving())
