"""Rollout: announces a revision to the nodes that follow its branch, and waits until each one runs
it or has reported why not; on a canary first, if one is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.conf import settings
from django.db import DatabaseError, connection
from redis import RedisError

from crawlframe.base.program import command
from crawlframe.code.checkout import DIGITS, Checkout
from crawlframe.errors import ArgumentError, CrawlframeError, did_you_mean
from crawlframe.frontier import NodeInfo
from crawlframe.frontier.client.wording import error_text
from crawlframe.frontier.cluster.rollouts import Rollout, branch_of
from crawlservice.connections.frontier import frontier
from crawlservice.rollouts.canary import CanaryTrial, NewError
from crawlservice.rollouts.status import NodeStatus, Phase, lives

POLL_EVERY = 0.25  # seconds
WHOLE = (40, 64)  # digits of a revision
COMMAND = command("node rollout")


class RolloutFailed(CrawlframeError):
    """Not every node runs the revision. The message names each node's version, and the next
    step."""


@dataclass
class RolloutRun:
    """One rollout of ``revision`` (40 hex digits).

    ``branch``: "" takes the only one that is followed. ``back``: nodes may go back to the revision.
    ``canary``: the node that runs ``pages`` pages with it before it is announced to the others.
    ``timeout``: seconds that each wait may take. ``show`` is called with the statuses and a
    note."""

    revision: str
    show: Callable[[list[NodeStatus], str], None]
    branch: str = ""
    back: bool = False
    canary: str = ""
    pages: int = 100
    timeout: float = 300.0
    _announced: Rollout | None = field(default=None, init=False)  # announced last
    _before: str = field(default="", init=False)  # the canary's revision before
    _asked: set[str] = field(default_factory=set, init=False)
    _last: dict[str, NodeStatus] = field(default_factory=dict, init=False)

    def run(self) -> None:
        """Returns when every living node that follows the branch runs the revision.

        Raises ArgumentError before anything is announced, RolloutFailed, and redis.RedisError or
        django.db.Error when a server is away at the beginning of a step."""
        self.find_nodes()
        if self.canary:
            self._run_canary(lives()[self.canary])
        self._announce(Rollout(self.revision, self.branch, back=self.back))
        self._wait_for_answers()
        failed = [one for one in self._answers() if one.phase is not Phase.LIVE]
        if failed:
            raise RolloutFailed(
                f"{_listed(failed)}. These keep the code they had. Fix it and roll out the "
                f"next revision, or take all nodes back: {COMMAND} REVISION --back"
            )

    def find_nodes(self) -> list[str]:
        """The names of the living nodes that follow the branch, the canary alone if there is one.
        Raises ArgumentError and redis.RedisError."""
        nodes = [node for node in lives().values() if node.lease_left > 0]
        self.branch = the_branch(nodes, self.branch)
        if self.canary:
            return [self._find_canary(nodes).node]
        return [node.node for node in nodes if branch_of(node.code.follows) == self.branch]

    def describe(self) -> str:
        """The announced revisions so far, for a user that stops watching."""
        told = self._announced
        if told is None:
            return "nothing was announced"
        short, whom = told.revision[:DIGITS], ", ".join(told.nodes)
        if not whom:
            text = f"{short} is announced to all nodes that follow {self.branch}"
        else:
            text = f"{short} is announced to {whom} and to no other node"
        text += ", and is not taken back"
        if whom and not told.back:
            text += f".\n{self._how_to_go_on()}"
        return f"{text}\nSee its progress: {COMMAND} --status"

    # -- the canary -------------------------------------------------------------------------------

    def _find_canary(self, nodes: list[NodeInfo]) -> NodeInfo:
        known = {node.node: node for node in nodes}
        node = known.get(self.canary)
        if node is None:
            raise ArgumentError(
                f"no living node is named {self.canary!r}{did_you_mean(self.canary, known)}; "
                f"these live: {', '.join(sorted(known))}"
            )
        if branch_of(node.code.follows) != self.branch:
            does = f"follows {node.code.follows}" if node.code.follows else "follows no branch"
            raise ArgumentError(
                f"node {self.canary} {does}; take one that follows {self.branch} as canary, or "
                f"start it with --reload --follow {self.branch}"
            )
        pull = [
            other.node
            for other in nodes
            if other.code.follow_every and branch_of(other.code.follows) == self.branch
        ]
        if pull:
            raise ArgumentError(
                f"{', '.join(sorted(pull))}: nodes that pull {self.branch} by themselves do not "
                "wait for a canary; start them with --follow-every 0"
            )
        return node

    def _run_canary(self, node: NodeInfo) -> None:
        """Returns when the canary has proved the revision. Raises RolloutFailed."""
        self._before = self._had(node)
        # Before it is announced: it may run pages at once.
        trial = CanaryTrial(self.revision[:DIGITS])
        told = Rollout(self.revision, self.branch, (self.canary,), self.back, self._before)
        self._announce(told)
        self._wait_for_answers()
        mine = self._last[self.canary]
        if mine.phase is not Phase.LIVE:
            self._take_back(f"canary {_listed([mine])}")
        if not self._until(lambda: self._proved(trial), lambda: self._count(trial)):
            raise RolloutFailed(
                f"canary {self.canary} ran {self._count(trial)} with {self.revision[:DIGITS]} in "
                f"{self.timeout:g} s, without a new kind of error. It stays as it is, and no other "
                f"node was affected.\n{self._how_to_go_on()}"
            )

    def _had(self, node: NodeInfo) -> str:
        """The revision that the canary goes back to; "" if it is unknown."""
        version = node.code.version.partition("+")[0]
        if version == self.revision[:DIGITS]:  # it is tried again
            told = frontier().rollouts.of(self.canary, self.branch)
            return told.before if told is not None and told.revision == self.revision else ""
        checkout = Checkout.around(settings.BASE_DIR)
        # A node resolves its first digits too.
        return (checkout.resolve(version) if checkout and version else "") or version

    def _proved(self, trial: CanaryTrial) -> bool:
        mine = self._last[self.canary]
        if mine.version not in ("", self.revision[:DIGITS]):
            raise RolloutFailed(
                f"canary {self.canary} runs {mine.version} now: somebody else changed its code. "
                "No other node was affected"
            )
        try:
            finding, worse = trial.check(), trial.check_quality()
        except DatabaseError:
            connection.close()  # nodes wait for it too
            return False
        if finding is not None:
            self._take_back(self._describe(finding))
        if worse:
            short = self.revision[:DIGITS]
            self._take_back(f"canary {self.canary} is worse with {short}: {worse}")
        return trial.pages >= self.pages

    def _count(self, trial: CanaryTrial) -> str:
        return f"{min(trial.pages, self.pages):,} of {self.pages:,} pages"

    def _describe(self, finding: NewError) -> str:
        lines = finding.detail.strip().splitlines()
        return (
            f"canary {self.canary} had an error with {self.revision[:DIGITS]} that no other "
            f"version had: {finding.kind}, for instance {finding.url}"
            + (f": {lines[-1]}" if lines else "")
        )

    def _take_back(self, why: str) -> None:
        """Brings the canary back to its former revision. Raises RolloutFailed."""
        if not self._before or self._before.startswith(self.revision[:DIGITS]):
            raise RolloutFailed(
                f"{why}.\nWhat it ran before is unknown, and no other node was affected. Take it "
                f"back: {COMMAND} REVISION --back"
            )
        untouched = self._last[self.canary].phase is Phase.NOT_PULLED
        self._announce(Rollout(self._before, self.branch, (self.canary,), back=True))
        short = self._before[:DIGITS]
        if untouched:
            end = f"Its checkout was left as it was, at {short}"
        else:
            self._until(self._settled, lambda: f"{self.canary} goes back to {short}")
            phase = self._last[self.canary].phase
            end = f"It is back on {short}"
            if phase is not Phase.LIVE:
                end = f"It was asked to go back to {short} and is still {phase}"
        raise RolloutFailed(f"{why}.\n{end}, and no other node was affected")

    def _how_to_go_on(self) -> str:
        try_on = f"{COMMAND} {self.revision[:DIGITS]} --canary {self.canary} --pages {self.pages}"
        back = f"{COMMAND} {self._before[:DIGITS] or 'REVISION'} --back"
        return (
            f"Wait longer: {try_on}\n"
            f"Roll out to all nodes: {COMMAND} {self.revision[:DIGITS]}\nGo back: {back}"
        )

    # -- announcing and waiting -------------------------------------------------------------------

    def _announce(self, rollout: Rollout) -> None:
        self._announced = frontier().rollouts.announce(rollout)
        self._asked = set(rollout.nodes)

    def _wait_for_answers(self) -> None:
        if not self._until(self._settled, lambda: ""):
            waiting = [one for one in self._answers() if not one.phase.settled]
            raise RolloutFailed(f"after {self.timeout:g} s: {_listed(waiting)}.\n{self.describe()}")

    def _until(self, ready: Callable[[], bool], note: Callable[[], str]) -> bool:
        """Shows the statuses until it is ready; returns False if the time is over."""
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                self._poll()
                done, remark = ready(), note()
            except RedisError as error:
                done, remark = False, error_text(error)
            self.show(list(self._last.values()), remark)
            if done or time.monotonic() > deadline:
                return done
            time.sleep(POLL_EVERY)

    def _poll(self) -> None:
        nodes, told = lives(), self._announced
        self._check_newest()
        for node in nodes.values():
            mine = branch_of(node.code.follows) == self.branch
            named = told is not None and (not told.nodes or node.node in told.nodes)
            one = NodeStatus.of(node, told if mine and named else None)
            if one.phase is Phase.NOT_TOLD and not mine:
                one = one._replace(why=f"follows {node.code.follows}")
            self._last[one.node] = one
            if mine and named and one.phase is not Phase.OFFLINE:
                self._asked.add(one.node)  # also one that joined meanwhile
        for name in self._last.keys() - nodes.keys():
            self._last[name] = self._last[name]._replace(phase=Phase.OFFLINE, why="")

    def _check_newest(self) -> None:
        told, newest = self._announced, frontier().rollouts.current()
        if told is None or newest is None or newest.id <= told.id or newest.branch != self.branch:
            return
        if not newest.nodes or self._asked & set(newest.nodes):
            raise RolloutFailed(
                f"somebody announced {newest.revision[:DIGITS]} meanwhile; see its progress: "
                f"{COMMAND} --status"
            )

    def _answers(self) -> list[NodeStatus]:
        return [one for name, one in sorted(self._last.items()) if name in self._asked]

    def _settled(self) -> bool:
        answers = self._answers()
        return bool(answers) and all(one.phase.settled for one in answers)


def the_branch(nodes: Iterable[NodeInfo], wanted: str = "") -> str:
    """The branch that living nodes follow. Raises ArgumentError if there is none, if there are
    several and none was given, or if no node follows the given branch."""
    followed = sorted({branch_of(node.code.follows) for node in nodes if node.code.follows})
    if not followed:
        raise ArgumentError(
            "no living node follows a branch; start nodes with: "
            f"{command('runcrawler --reload --follow BRANCH')}"
        )
    if wanted and wanted not in followed:
        raise ArgumentError(
            f"no living node follows {wanted!r}{did_you_mean(wanted, followed)}; "
            f"followed: {', '.join(followed)}"
        )
    if not wanted and len(followed) > 1:
        raise ArgumentError(
            f"nodes follow different branches ({', '.join(followed)}); say which with --branch"
        )
    return wanted or followed[0]


def full_revision(text: str) -> str:
    """The 40 hex digits of a revision as a user typed it, resolved by git in the checkout of this
    service if it is shorter. Raises ArgumentError."""
    if len(text) in WHOLE and not text.lower().strip("0123456789abcdef"):
        return text.lower()
    checkout = Checkout.around(settings.BASE_DIR)
    if checkout is None:
        raise ArgumentError(
            f"{text!r} cannot be resolved: {settings.BASE_DIR} is no git checkout; give all "
            "40 hex digits of the revision"
        )
    if revision := checkout.resolve(text):
        return revision
    raise ArgumentError(
        f"there is no revision {text!r} in {checkout.root}, or it is ambiguous; run "
        "git fetch there, or give all 40 hex digits"
    )


def _listed(statuses: Iterable[NodeStatus]) -> str:
    """``alpha is offline; beta refused: spiders/shop.py:3: SyntaxError``."""
    verbs = {Phase.REFUSED: "refused", Phase.NOT_PULLED: "could not pull"}
    return "; ".join(
        f"{one.node} {verbs.get(one.phase, f'is {one.phase}')}"
        + (f": {one.why}" if one.why else "")
        for one in statuses
    )
