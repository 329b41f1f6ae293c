"""A supervisor's messages to its masters, which are not forked, and when it starts another."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import TablesMissing
from crawlframe.frontier.cluster.nodes import CodeState
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlframe.node.code import Code
from crawlframe.node.signals import HANDED_OVER
from crawlframe.node.supervisor import reexec
from crawlframe.node.supervisor.git import Follower
from crawlframe.node.supervisor.mailbox import FileChanged
from crawlframe.node.supervisor.master_processes import (
    RESTART_PAUSES,
    RETRY_PAUSES,
    MasterProcess,
    MasterProcesses,
)
from crawlframe.node.supervisor.supervisor import HAND_OVER, Supervisor
from crawlframe.node.supervisor_messages import (
    AdoptedMaster,
    CheckoutPulled,
    CodeReport,
    DropPreload,
    FromMaster,
    HandOver,
    Hello,
    HelloReply,
    Inheritance,
    InitialState,
    LoadedCode,
    Migrations,
    Preload,
    RefuseVersion,
    Reload,
    ReplayDead,
    RolloutAnnounced,
    SendCodeReport,
    Serving,
    StillLoading,
    ToMaster,
    from_master,
    to_master,
)

SETTINGS = Settings(load_timeout=5.0, quiet=0.25)
QUIET = SETTINGS.quiet


class Disk(Code):
    """``framework``, ``tree`` and ``revision`` simulate the disk."""

    spiders = Path("/spiders")
    trees: Iterable[Path] = ()  # type: ignore[assignment]
    singles = packages = ()  # type: ignore[assignment]
    marks: frozenset[Path] = frozenset()
    busy = ""
    checkout = None
    engine_paths = ()  # type: ignore[assignment]
    installed = False

    def __init__(self) -> None:
        self.framework, self.tree, self.revision = "f1", "t1", "r1"

    def engine_digest(self) -> str:
        return self.framework

    def extend(self, paths: Iterable[Path]) -> list[Path]:
        more = [*paths]
        self.framework += "+" * len(more)
        return more

    def identity(self, extra: Iterable[Path] = ()) -> tuple[str, str]:
        return self.tree, self.revision

    def version_on_disk(self) -> str:
        return f"{self.revision}+{self.tree}"


class NoMaster(MasterProcess):
    """A master without a process. ``signals``: those it got."""

    def __init__(self, pid: int, engine: str, now: float, stack: ExitStack) -> None:
        near, far = socket.socketpair()
        stack.callback(near.close)
        stack.callback(far.close)
        super().__init__(pid, to_master(near), engine, now)
        self.line = from_master(far)
        self.signals: list[int] = []

    def signal(self, number: signal.Signals) -> None:
        self.signals.append(number)

    def told(self) -> list[ToMaster]:
        """The messages it got since the last call."""
        return self.line.receive()


class NoForks(MasterProcesses):
    """A node whose masters are no processes. ``broken``: none can be started."""

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(["command"])
        stack.callback(self.selector.close)
        self._stack = stack
        self._dead: list[tuple[MasterProcess, int]] = []
        self.started: list[NoMaster] = []
        self.broken = False

    def start(self, engine: str, now: float) -> NoMaster:
        if self.broken:
            raise OSError("no more processes")
        master = NoMaster(len(self.started) + 1, engine, now, self._stack)
        self.started.append(master)
        self.add(master)
        return master

    def die(self, master: NoMaster, code: int) -> None:
        self._dead.append((master, code))

    def dead(self) -> Iterator[tuple[MasterProcess, int]]:
        dead, self._dead = self._dead, []
        yield from dead


class Follows(Follower):
    name = "origin/main"

    def __init__(self) -> None:
        pass


class Node:
    """A supervisor with one master, the disk and the time."""

    def __init__(self, stack: ExitStack) -> None:
        self.disk, self.masters = Disk(), NoForks(stack)
        self.now = 1000.0
        self.supervisor = Supervisor(
            SETTINGS,
            self.masters,
            self.disk,
            polling=False,
            follower=Follows(),
            clock=lambda: self.now,
        )
        stack.callback(self.supervisor.close)

    @property
    def first(self) -> NoMaster:
        return self.masters.started[0]

    @property
    def last(self) -> NoMaster:
        return self.masters.started[-1]

    def turn(self, seconds: float = 0.0) -> int:
        """Lets ``seconds`` pass. Returns how many masters were started then."""
        before = len(self.masters.started)
        self.now += seconds
        self.supervisor.listen(0)
        self.supervisor.turn()
        return len(self.masters.started) - before

    def says(self, master: NoMaster, *messages: FromMaster) -> int:
        for message in messages:
            master.line.send(message)
        return self.turn()

    def dies(self, master: NoMaster, code: int) -> int:
        self.masters.die(master, code)
        return self.turn()

    def report(self, master: NoMaster, state: str = "live", **broken: str) -> int:
        """Reports that the master has loaded, or refused, the code on the disk."""
        tree, revision = self.disk.identity()
        loaded = LoadedCode(tree, revision, "/spiders", [], [*broken])
        return self.says(master, CodeReport(CodeState(state=state), loaded))

    def serves(self, master: NoMaster, **broken: str) -> None:
        """Makes the master start and serve."""
        self.says(master, Hello())
        self.report(master, **broken)
        self.says(master, Serving())

    def change(self, path: str = "/spiders/shop.py") -> None:
        self.supervisor.mailbox.put(FileChanged(self.now, Path(path)))
        self.turn()

    def follow(self) -> NoMaster:
        """Changes the framework; returns the master that is to take over, which has been
        imported."""
        self.disk.framework += "x"
        self.change("/framework.py")
        assert self.turn(QUIET) == 1
        self.says(self.last, Hello())
        return self.last


@pytest.fixture
def fresh() -> Iterator[Node]:
    with ExitStack() as stack:
        yield Node(stack)


@pytest.fixture
def node(fresh: Node) -> Node:
    """A node whose first master serves, and has one broken module."""
    fresh.supervisor.begin()
    fresh.serves(fresh.first, bad="error")
    fresh.first.told()
    return fresh


# -- new masters ----------------------------------------------------------------------------------


def test_the_first_master_is_welcomed(fresh: Node) -> None:
    fresh.supervisor.begin()
    started, fresh.now = fresh.now, fresh.now + 1.0
    assert fresh.turn() == 0
    fresh.says(fresh.first, Hello())
    initial = InitialState([], None, started, "origin/main", "", "", 0, 0)
    assert fresh.first.told() == [HelloReply(initial)]


def test_one_whose_framework_changed_meanwhile_is_dropped(fresh: Node) -> None:
    fresh.supervisor.begin()
    fresh.disk.framework = "f2"
    fresh.says(fresh.first, Hello())
    assert (fresh.first.told(), fresh.first.signals) == ([], [signal.SIGKILL])
    assert fresh.dies(fresh.first, -signal.SIGKILL) == 1
    assert fresh.last.engine == "f2"
    assert fresh.last.changed_at == 1000.0


@pytest.mark.parametrize("early", [True, False])
def test_what_only_a_master_has_loaded_is_watched(fresh: Node, tmp_path: Path, early: bool) -> None:
    """Such as the team's apps. Whether they have changed since is seen by their times."""
    (tmp_path / "app.py").touch()
    fresh.supervisor.begin()
    fresh.first.began += 10**10 if early else -(10**10)
    fresh.says(fresh.first, Hello([str(tmp_path)]))
    assert fresh.first.signals == ([] if early else [signal.SIGKILL])
    assert fresh.first.engine == fresh.disk.framework == "f1+"
    assert tmp_path in fresh.supervisor._watcher.reloader.directory_globs


def test_one_that_cannot_load_its_code_is_dropped_for_another_framework(fresh: Node) -> None:
    fresh.supervisor.begin()
    fresh.says(fresh.first, Hello())
    fresh.disk.framework = "f2"
    fresh.change("/framework.py")
    fresh.turn(QUIET)
    assert fresh.first.signals == [signal.SIGKILL]
    assert fresh.dies(fresh.first, -signal.SIGKILL) == 1


def test_what_was_pulled_before_is_in_the_welcome(fresh: Node) -> None:
    fresh.supervisor.begin()
    fresh.supervisor.mailbox.put(CheckoutPulled("ab", "dirty", 0))
    fresh.turn()
    fresh.says(fresh.first, Hello())
    assert fresh.first.told() == [
        HelloReply(InitialState([], None, 1000.0, "origin/main", "ab", "dirty", 0, 0))
    ]


def test_none_can_be_started(fresh: Node) -> None:
    fresh.masters.broken = True
    fresh.supervisor.begin()
    fresh.masters.broken = False
    assert fresh.turn() == 1


def test_the_supervisor_before_this_one_left_its_master(
    fresh: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    near, far = socket.socketpair()
    left = Inheritance(("ab", "", 6), 7, AdoptedMaster(1, near.detach(), "f1+", ["/app"]))
    monkeypatch.setattr(reexec, "inherited_state", lambda: left)
    fresh.supervisor.begin()
    line = from_master(far)
    assert line.receive() == [SendCodeReport()]
    assert fresh.masters.started == []
    line.send(CodeReport(CodeState(state="live"), LoadedCode("t0", "r1", "/spiders", [], [])))
    fresh.turn()
    assert fresh.turn(QUIET) == 0
    assert line.receive() == [Preload(1000.0), Reload(1000.0, "t1", "r1")]  # it changed meanwhile
    line.close()
    fresh.masters.remove(next(iter(fresh.masters)))


# -- changes of the spiders -----------------------------------------------------------------------


def test_a_change_is_loaded_ahead_and_asked_for_when_all_is_quiet(node: Node) -> None:
    node.disk.tree = "t2"
    node.change()
    assert node.first.told() == [Preload(node.now)]
    node.turn(QUIET / 2)
    node.change()
    node.turn(QUIET / 2)
    assert node.first.told() == []
    node.turn(QUIET / 2)
    assert node.first.told() == [Reload(1000.0 + QUIET / 2, "t2", "r1")]
    node.turn(60.0)
    assert node.first.told() == []


def test_what_runs_already_is_not_asked_for(node: Node) -> None:
    node.change()
    node.turn(QUIET)
    assert node.first.told() == [Preload(1000.0), DropPreload()]


def test_what_was_accepted_is_not_asked_for_before_it_has_a_worker(node: Node) -> None:
    node.disk.tree = "t2"
    node.change()
    node.turn(QUIET)
    node.supervisor._handled = None  # as after the start of the node
    loaded = LoadedCode("t2", "r1", "/spiders", [], [])
    node.says(node.first, CodeReport(CodeState(state="checking", candidate="2"), loaded))
    node.first.told()
    node.change()
    node.turn(QUIET)
    assert node.first.told() == [Preload(node.now - QUIET), DropPreload()]


def test_what_was_refused_is_tried_again_when_it_is_written_again(node: Node) -> None:
    node.disk.tree = "t2"
    node.change()
    node.turn(QUIET)
    node.first.told()
    loaded = LoadedCode("t1", "r1", "/spiders", [], [])
    node.says(node.first, CodeReport(CodeState(state="refused"), loaded))
    node.turn(60.0)
    assert node.first.told() == []
    node.change()
    node.turn(QUIET)
    assert node.first.told()[-1] == Reload(node.now - QUIET, "t2", "r1")


def test_what_was_refused_is_tried_again_when_a_rollout_was_pulled(node: Node) -> None:
    node.report(node.first, "refused")
    node.supervisor.mailbox.put(CheckoutPulled("ab", "", 0))
    node.turn()
    node.turn(QUIET)
    assert node.first.told() == [CheckoutPulled("ab", "", 0)]
    node.supervisor.mailbox.put(CheckoutPulled("ab", "", 7))
    node.turn()
    node.turn(QUIET)
    assert node.first.told()[-1] == Reload(1000.0 + QUIET, "t1", "r1")


@pytest.mark.parametrize("state", ["live", "refused"])
def test_what_changed_while_it_was_loaded_is_asked_for_once(node: Node, state: str) -> None:
    node.disk.tree = "t2"
    loaded = LoadedCode("t1", "r1", "/spiders", [], [])
    for told in ([Preload(1000.0), Reload(1000.0, "t2", "r1")], []):
        node.says(node.first, CodeReport(CodeState(state=state), loaded))
        node.turn(QUIET)
        assert node.first.told() == told


def test_nothing_is_asked_of_a_master_that_has_loaded_nothing(fresh: Node) -> None:
    fresh.supervisor.begin()
    fresh.says(fresh.first, Hello())
    fresh.first.told()
    fresh.disk.tree = "t2"
    fresh.change()
    fresh.turn(QUIET)
    assert fresh.first.told() == []
    fresh.report(fresh.first)  # it had it already
    fresh.turn(QUIET)
    assert fresh.first.told() == [Preload(1000.0), DropPreload()]


def test_a_pull_is_reported(node: Node) -> None:
    node.supervisor.mailbox.put(CheckoutPulled("ab", "dirty", 0))
    node.turn()
    assert node.first.told() == [CheckoutPulled("ab", "dirty", 0)]


def test_a_rollout_is_pulled_and_answered(node: Node) -> None:
    node.says(node.first, RolloutAnnounced(Rollout("abc", "main", id=7)))
    node.supervisor.mailbox.put(CheckoutPulled("ab", "", 7))
    node.supervisor.mailbox.put(CheckoutPulled("cd", "", 0))
    node.turn()
    assert node.first.told() == [CheckoutPulled("ab", "", 7), CheckoutPulled("cd", "", 7)]
    state = node.follow().told()[0]
    assert isinstance(state, HelloReply)
    assert (state.state.rollout, state.state.answered) == (7, 7)


# -- changes of the framework ---------------------------------------------------------------------


@pytest.fixture
def reborn(monkeypatch: pytest.MonkeyPatch) -> list[Inheritance]:
    """The states left by the supervisor at each re-execution."""
    left: list[Inheritance] = []
    monkeypatch.setattr(reexec, "check", lambda command: "")
    monkeypatch.setattr(reexec, "execute", lambda command, cwd, state: left.append(state))
    return left


def test_a_node_is_handed_over(node: Node, reborn: list[Inheritance]) -> None:
    follower = node.follow()
    assert node.first.told() == [DropPreload()]
    initial = InitialState([1], ["bad"], 1000.0, "origin/main", "", "", 0, 0)
    assert follower.told() == [HelloReply(initial)]
    assert follower.engine == "f1x"
    node.report(follower)
    assert node.first.told() == []
    node.says(follower, Serving())
    assert node.first.told() == [HandOver()]
    assert reborn == []
    node.dies(node.first, HANDED_OVER)
    assert [left.master.pid for left in reborn] == [2]
    assert reborn[0].master.engine == "f1x"
    assert node.turn(60.0) == 0
    assert len(reborn) == 1
    assert node.supervisor.exit_code is None


def test_while_a_pull_is_owed_the_supervisor_stays(node: Node, reborn: list[Inheritance]) -> None:
    node.says(node.first, RolloutAnnounced(Rollout("abc", "main", id=7)))
    follower = node.follow()
    node.serves(follower)
    node.dies(node.first, HANDED_OVER)
    assert reborn == []
    node.supervisor.mailbox.put(CheckoutPulled("ab", "", 7))
    node.turn()
    assert [(left.pulled, left.rollout) for left in reborn] == [(("ab", "", 7), 7)]


def test_while_git_is_at_work_the_supervisor_stays(node: Node, reborn: list[Inheritance]) -> None:
    node.serves(node.follow())
    node.disk.busy = "git"
    node.dies(node.first, HANDED_OVER)
    assert reborn == []
    node.disk.busy = ""
    node.turn()
    assert len(reborn) == 1


def test_while_another_master_begins_the_supervisor_stays(
    node: Node, reborn: list[Inheritance]
) -> None:
    node.serves(node.follow())
    third = node.follow()
    node.dies(node.first, HANDED_OVER)
    assert reborn == []
    node.disk.framework = "f1x"
    node.dies(third, 1)
    assert len(reborn) == 1


def test_a_supervisor_becomes_no_other_framework_than_its_master_runs(
    node: Node, reborn: list[Inheritance]
) -> None:
    node.serves(node.follow())
    node.disk.framework = "f3"
    node.dies(node.first, HANDED_OVER)
    assert reborn == []


def test_a_supervisor_that_did_not_find_the_spiders_becomes_a_fresh_one(
    node: Node, reborn: list[Inheritance]
) -> None:
    loaded = LoadedCode("t1", "r1", "/elsewhere", [], [])
    node.says(node.first, CodeReport(CodeState(state="live"), loaded))
    assert len(reborn) == 1


def test_a_supervisor_that_would_not_work_is_not_become(
    node: Node, reborn: list[Inheritance], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reexec, "check", lambda command: "SyntaxError")
    node.serves(node.follow())
    node.dies(node.first, HANDED_OVER)
    assert reborn == []
    assert node.supervisor.exit_code is None


def test_an_installed_package_counts_as_the_framework(node: Node) -> None:
    node.change("/v/site-packages")
    assert node.turn(QUIET) == 0
    assert node.turn(2.0) == 1


def test_one_that_dies_before_it_serves_is_refused(node: Node) -> None:
    follower = node.follow()
    node.first.told()
    assert node.dies(follower, 1) == 0
    assert node.first.told() == [RefuseVersion("r1+t1", "its master died (exit code 1)")]
    assert node.turn(60.0) == 0
    assert node.supervisor.exit_code is None
    node.disk.framework = "f3"
    node.change("/framework.py")
    assert node.turn(QUIET) == 1


def test_an_installed_one_is_tried_again_as_long_as_the_disk_differs(node: Node) -> None:
    """Its packages may have been installed since, which changes no file of the framework."""
    node.disk.installed = True
    follower = node.follow()
    for pause in (*RETRY_PAUSES, RETRY_PAUSES[-1]):
        node.dies(follower, 1)
        assert node.turn(pause - 1.0) == 0
        assert node.turn(1.0) == 0  # due now; starts when the code is quiet
        assert node.turn(QUIET) == 1
        follower = node.last
    node.dies(follower, 1)
    node.disk.framework = node.first.engine  # the old one was installed again
    assert node.turn(RETRY_PAUSES[-1]) == 0
    assert node.turn(QUIET) == 0


def test_pauses_between_tries_begin_anew_with_a_master_that_serves(node: Node) -> None:
    node.disk.installed = True
    node.dies(node.follow(), 1)
    node.turn(RETRY_PAUSES[0])
    node.turn(QUIET)
    node.serves(node.last)
    assert node.supervisor._retries.deaths == 0


def test_one_that_refused_what_it_loaded_says_why(node: Node) -> None:
    follower = node.follow()
    node.first.told()
    node.says(follower, CodeReport(CodeState(state="refused", problem="shop.py:1: error"), None))
    node.dies(follower, HANDED_OVER)
    assert node.first.told() == [RefuseVersion("r1+t1", "shop.py:1: error")]


def test_one_that_is_silent_for_too_long_is_refused(node: Node) -> None:
    follower = node.follow()
    patience = HAND_OVER * SETTINGS.load_timeout + SETTINGS.check_timeout
    node.turn(patience - 1)
    node.says(follower, StillLoading())
    node.turn(patience)
    assert follower.signals == []
    node.turn(1.0)
    assert follower.signals == [signal.SIGKILL]
    node.first.told()
    node.dies(follower, -signal.SIGKILL)
    assert node.first.told() == [RefuseVersion("r1+t1", "its master was silent for too long")]


@pytest.mark.parametrize("then", ["f3", "f1x"])
def test_the_framework_changes_once_more(node: Node, then: str) -> None:
    follower = node.follow()
    node.disk.framework = "f3"
    node.change("/framework.py")
    node.turn(QUIET)
    assert follower.signals == [signal.SIGKILL]
    node.first.told()
    node.disk.framework = then
    assert node.dies(follower, -signal.SIGKILL) == 0
    assert node.turn(QUIET) == 1
    assert node.last.engine == then
    told = node.first.told()
    assert not any(isinstance(message, RefuseVersion) for message in told)


def test_it_changes_back(node: Node) -> None:
    follower = node.follow()
    node.disk.framework = "f1"
    node.change("/framework.py")
    node.turn(QUIET)
    node.dies(follower, -signal.SIGKILL)
    assert node.turn(QUIET) == 0
    assert node.first.told()[-1] == Reload(node.now - QUIET, "t1", "r1")


def test_while_another_master_begins_nothing_is_asked_of_the_present_one(node: Node) -> None:
    follower = node.follow()
    node.first.told()
    node.disk.tree = "t2"
    node.change()
    node.turn(QUIET)
    assert node.first.told() == []
    node.dies(follower, 1)
    node.disk.framework = "f1"
    node.turn(QUIET)
    assert node.first.told()[-1] == Reload(1000.0 + QUIET, "t2", "r1")


def test_what_lacked_tables_is_tried_again_when_there_are_more(node: Node) -> None:
    node.says(node.first, Migrations("1"))
    follower = node.follow()
    node.dies(follower, TablesMissing.exit_code)
    assert node.turn(60.0) == 0
    node.says(node.first, Migrations("1"))
    assert node.turn(60.0) == 0
    node.says(node.first, Migrations("2"))
    assert node.turn(QUIET) == 1


def test_no_other_can_be_started(node: Node) -> None:
    node.masters.broken = True
    node.disk.framework = "f2"
    node.change("/framework.py")
    node.turn(QUIET)
    assert node.first.told()[-1] == RefuseVersion("r1+t1", "no more processes")


def test_one_that_dies_while_it_leaves_is_replayed(node: Node, reborn: list[Inheritance]) -> None:
    follower = node.follow()
    node.serves(follower)
    follower.told()
    node.dies(node.first, -signal.SIGKILL)
    assert follower.told() == [ReplayDead()]


def test_a_master_of_a_later_version_may_say_more(node: Node) -> None:
    later: list[object] = ["later", {"a": 1}]
    node.first.line.send(later)  # type: ignore[arg-type]
    node.turn()
    assert node.supervisor.exit_code is None


# -- masters that end -----------------------------------------------------------------------------


@pytest.mark.parametrize("code", [-signal.SIGKILL, 1])
def test_a_master_that_dies_is_followed_by_another(node: Node, code: int) -> None:
    assert node.dies(node.first, code) == 1  # at once
    for pause in RESTART_PAUSES[1:]:
        assert node.dies(node.last, 1) == 0
        assert node.turn(pause - 0.1) == 0
        assert node.turn(0.2) == 1
    node.serves(node.last)
    node.now += 60.0
    assert node.dies(node.last, -signal.SIGKILL) == 1  # it had worked for a while


def test_one_that_never_worked_ends_the_supervisor(fresh: Node) -> None:
    fresh.supervisor.begin()
    fresh.dies(fresh.first, 5)
    assert fresh.supervisor.exit_code == 5


def test_one_that_was_killed_at_once_is_followed_by_another(fresh: Node) -> None:
    fresh.supervisor.begin()
    assert fresh.dies(fresh.first, -signal.SIGKILL) == 1


def test_one_that_is_done_ends_the_supervisor(node: Node) -> None:
    node.dies(node.first, 0)
    assert node.supervisor.exit_code == 0


def test_a_signal_stops_all_masters(node: Node) -> None:
    follower = node.follow()
    os.kill(os.getpid(), signal.SIGTERM)
    node.turn()
    os.kill(os.getpid(), signal.SIGTERM)
    node.turn()
    assert node.first.signals == follower.signals == [signal.SIGTERM, signal.SIGTERM]
    node.change("/framework.py")
    assert node.turn(60.0) == 0
    assert node.dies(follower, 0) == 0
    assert node.supervisor.exit_code is None
    node.dies(node.first, 0)
    assert node.supervisor.exit_code == 0
