"""Whether a version waits for its recorded pages, and their effect. No process is forked."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import msgspec
import pytest

from crawlframe.frontier.cluster.decisions import Decision
from crawlframe.node.child_process import CHECKER, Child
from crawlframe.node.master.template import Template
from crawlframe.node.messages import (
    Checked,
    CheckingPage,
    CheckRecorded,
    CodeLoaded,
    FromChecker,
    child_line,
)
from crawlframe.node.supervisor_messages import InitialState, Reload
from tests.node.test_code_reload import Node, NoForks, loaded


class NoChecker(Child):
    """A checker without a process. ``killed``: it is not needed any more."""

    killed = False

    def kill(self) -> None:
        self.killed = True


class Checking(NoForks):
    """A node whose checkers are no processes either. ``refuses``: no checker can be forked."""

    refuses = False

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        self.checkers: list[NoChecker] = []
        self.asked: list[list[str]] = []

    def start_checker(self, template: Template, *lines: socket.socket) -> Child:
        if self.refuses:
            raise OSError("no memory")
        ours, theirs = child_line()
        for end in (ours, theirs):
            self._stack.callback(end.close)
        checker = NoChecker(CHECKER, 0, ours)
        self._selector.register(ours, 1, checker)
        self.checkers.append(checker)
        self._theirs = theirs
        return checker

    def message(self) -> CheckRecorded:
        """What the last checker is to do."""
        [message] = self._theirs.receive()
        assert isinstance(message, CheckRecorded)
        return message

    def asked_now(self) -> list[str]:
        """The spiders that the last checker is to replay."""
        return self.message().spiders


class CheckedNode(Node):
    """A node whose versions have recorded pages."""

    pool: Checking
    tried: list[str] | None

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(stack)
        self.tried = []
        self.pool = Checking(stack)
        self.code_reload._pool = self.code_reload._check._pool = self.pool

    @property
    def checker(self) -> NoChecker:
        return self.pool.checkers[-1]

    def checks(self, *messages: FromChecker, checker: NoChecker | None = None) -> None:
        for message in messages:
            self.code_reload.on_message(checker or self.checker, message, self.now)
        self.staff()

    def loads(self, version: str, **marks: str) -> None:
        self.change()
        self.says(msgspec.structs.replace(with_checks(version, **marks), tried=self.tried))


def with_checks(version: str, **marks: str) -> CodeLoaded:
    return msgspec.structs.replace(loaded(version), checks=marks)


@pytest.fixture
def node() -> Iterator[CheckedNode]:
    with ExitStack() as stack:
        yield CheckedNode(stack)


@pytest.fixture
def live(node: CheckedNode) -> CheckedNode:
    """A node with version 1, whose recorded pages pass."""
    node.loads("1", shop="a", news="a")
    node.checks(Checked({}))
    node.told()
    return node


def asked(node: CheckedNode) -> list[str]:
    return node.pool.asked_now()


def test_a_version_waits_for_its_recorded_pages(live: CheckedNode) -> None:
    live.loads("2", shop="b", news="a")
    assert asked(live) == ["shop"]  # news has not changed
    assert (live.live, live.state) == ("1", "checking")
    live.checks(CheckingPage("shop", "start"), Checked({}))
    assert (live.live, live.state, live.code_reload.state.problem) == ("2", "live", "")
    assert live.checker.killed


def test_a_version_whose_pages_fail_is_refused(live: CheckedNode) -> None:
    before = live.code_reload.live
    live.loads("2", shop="b", news="a")
    template = live.trial
    live.checks(Checked({"shop": "spider shop: recorded page a: items[0].price: 1 → 2"}))
    assert (live.live, live.state, live.code_reload.live) == ("1", "refused", before)
    assert live.code_reload.state.problem.endswith("items[0].price: 1 → 2")
    assert template.ended
    assert live.tick(99.0) == 0  # until the code changes again
    live.loads("3", shop="c", news="a")
    live.checks(Checked({}))
    assert live.live == "3"


def test_code_of_others_goes_live_at_once(live: CheckedNode) -> None:
    checkers = len(live.pool.checkers)
    live.lives("2")  # which has no recorded pages
    live.loads("3", shop="a", news="a")
    live.checks(Checked({}))
    live.loads("4", shop="a", news="a")
    assert (live.live, live.state) == ("4", "live")
    assert len(live.pool.checkers) == checkers + 1


def test_of_the_first_version_pages_may_fail_and_may_go_on_failing(node: CheckedNode) -> None:
    node.loads("1", shop="a")
    assert (node.live, node.state) == ("1", "live")  # there is no other
    node.checks(Checked({"shop": "spider shop: price"}))
    assert (node.state, node.code_reload.state.problem) == ("live", "spider shop: price")
    node.loads("2", shop="b")
    assert node.live == "1"
    node.checks(Checked({"shop": "spider shop: price"}))
    assert node.live == "2"
    node.loads("3", shop="c")
    node.checks(Checked({}))  # mended
    assert node.live == "3"
    node.loads("4", shop="d")
    node.checks(Checked({"shop": "spider shop: price"}))
    assert (node.live, node.state) == ("3", "refused")


def test_a_check_that_hangs_is_ended(live: CheckedNode) -> None:
    live.loads("2", shop="b", news="a")
    live.checks(CheckingPage("shop", "page-2"))
    live.tick(1.0)
    assert live.state == "checking"
    live.tick(59.0)
    assert live.state == "checking"
    live.tick(1.0)
    assert (live.live, live.state) == ("1", "refused")
    problem = live.code_reload.state.problem
    assert problem.startswith("spider shop: recorded page page-2 took longer than 60 s")
    assert "CRAWLFRAME_CHECK_TIMEOUT" in problem
    assert live.checker.killed


def test_a_check_that_crashes_names_the_page(live: CheckedNode) -> None:
    live.loads("2", shop="b", news="a")
    live.checks(CheckingPage("shop", "page-2"))
    live.code_reload.on_exit(live.checker, -signal.SIGSEGV, live.now)
    assert (live.live, live.state) == ("1", "refused")
    assert "page page-2 ended the process that replays it (SIGSEGV)" in (
        live.code_reload.state.problem
    )


def test_a_change_during_a_check_ends_it(live: CheckedNode) -> None:
    live.loads("2", shop="b", news="a")
    checker, template = live.checker, live.trial
    live.code_reload.reload(Reload(live.now, "", ""))
    assert checker.killed
    assert template.ended
    live.checks(Checked({}), checker=checker)  # too late
    assert live.live == "1"
    assert live.tick() == 1
    live.says(with_checks("3", shop="a", news="a"))
    assert live.live == "3"


def test_the_death_of_the_template_ends_its_check(live: CheckedNode) -> None:
    live.loads("2", shop="b", news="a")
    live.dies(-signal.SIGKILL)
    assert live.checker.killed
    assert live.tick(1.0) == 1
    live.says(with_checks("2", shop="b", news="a"))
    live.checks(Checked({}))
    assert live.live == "2"


def test_a_master_that_is_to_follow_gives_up_if_pages_fail(node: CheckedNode) -> None:
    node.code_reload.follow(InitialState([1], [], 900.0, "", "", "", 0, 0))
    node.tick(workers=0)
    node.says(with_checks("2", shop="a"))
    assert node.live == ""
    node.checks(Checked({"shop": "spider shop: price"}))
    assert node.state == "refused"
    assert node.code_reload.given_up


def test_an_end_of_the_node_ends_the_check(live: CheckedNode) -> None:
    live.loads("2", shop="b", news="a")
    live.code_reload.end()
    assert live.checker.killed


def test_a_version_that_cannot_be_checked_is_loaded_again(live: CheckedNode) -> None:
    live.pool.refuses = True
    live.loads("2", shop="b", news="a")
    assert live.live == "1"
    assert live.trial.ended
    live.dies(-signal.SIGKILL)
    live.pool.refuses = False
    assert live.tick(1.0) == 1
    live.says(with_checks("2", shop="b", news="a"))
    live.checks(Checked({}))
    assert live.live == "2"


@pytest.fixture
def previewing(live: CheckedNode) -> CheckedNode:
    """A node that runs kept pages of shop by both versions."""
    live.tried = ["shop"]
    return live


def test_a_version_without_kept_pages_forks_nothing(live: CheckedNode) -> None:
    before = len(live.pool.checkers)
    live.loads("2", shop="a", news="a")
    assert (live.live, len(live.pool.checkers)) == ("2", before)


@pytest.mark.parametrize("tried", [[], None])
def test_the_same_code_once_more_is_live_already(
    previewing: CheckedNode, tried: list[str] | None
) -> None:
    previewing.loads("2", shop="a", news="a")
    previewing.checks(Checked({}))
    live, before = previewing.code_reload.live, len(previewing.pool.checkers)
    previewing.tried = tried
    previewing.loads("2", shop="a", news="a")
    assert previewing.code_reload.live is live
    assert len(previewing.pool.checkers) == before


def test_of_everything_that_was_imported_the_checkers_find_what_differs(
    previewing: CheckedNode,
) -> None:
    previewing.tried = None
    previewing.loads("2", shop="a", news="a")
    message = previewing.pool.message()
    assert (message.spiders, message.tried, message.live) == ([], None, "1")
    previewing.code_reload.on_exit(previewing.checker, -signal.SIGSEGV, previewing.now)
    assert previewing.code_reload.state.problem.startswith("the check of kept pages ended")


def test_kept_pages_are_run_by_the_live_version_too(previewing: CheckedNode) -> None:
    before = len(previewing.pool.checkers)
    previewing.loads("2", shop="b", news="a")
    beside, checker = previewing.pool.checkers[before:]
    assert asked(previewing) == ["shop"]
    previewing.checks(CheckingPage("shop", "https://shop.example/", kept=True), checker=checker)
    previewing.code_reload.on_exit(beside, 1, previewing.now)
    assert previewing.state == "checking"  # the new one goes on without it
    previewing.code_reload.on_exit(checker, -signal.SIGSEGV, previewing.now)
    problem = previewing.code_reload.state.problem
    assert problem.startswith("spider shop: kept page https://shop.example/ ended the process")
    assert not beside.killed  # its pid may be that of another process now


def test_an_operator_may_accept_a_version(previewing: CheckedNode) -> None:
    reload = previewing.code_reload
    reload._asks = True
    previewing.loads("2", shop="b", news="a")
    previewing.checks(Checked({"shop": "shop.price: lost"}))
    assert (previewing.live, previewing.state, reload.state.asks) == ("1", "refused", True)
    decisions = {"3": Decision(True, "ann")}
    reload.look(decisions.get, previewing.now)
    assert previewing.tick(1.0) == 0
    decisions["2"] = Decision(True, "ann")
    reload.look(decisions.get, previewing.now)
    assert previewing.tick(1.0) == 1
    assert not reload.state.asks
    previewing.says(with_checks("2", shop="b", news="a"))
    assert (previewing.live, previewing.state, reload.state.asks) == ("2", "live", False)


def test_an_operator_may_refuse_a_version(previewing: CheckedNode) -> None:
    reload = previewing.code_reload
    reload._asks = True
    previewing.loads("2", shop="b", news="a")
    previewing.checks(Checked({"shop": "shop.price: lost"}))
    decisions = {"2": Decision(False, "ann")}
    reload.look(decisions.get, previewing.now)
    assert previewing.tick(1.0) == 0
    state = reload.state
    assert (state.state, state.asks, state.refused_by) == ("refused", False, "ann")
    assert state.problem == "shop.price: lost"
    reload.look(decisions.get, previewing.now)
    assert reload.state is state  # nothing is announced again
    # A newer version is tried anew.
    previewing.loads("3", shop="c", news="a")
    assert (reload.state.state, reload.state.refused_by) == ("checking", "")
    previewing.checks(Checked({"shop": "shop.price: lost"}))
    assert (reload.state.asks, reload.state.refused_by) == (True, "")


def test_a_refusal_can_be_taken_back(previewing: CheckedNode) -> None:
    reload = previewing.code_reload
    reload._asks = True
    previewing.loads("2", shop="b", news="a")
    previewing.checks(Checked({"shop": "shop.price: lost"}))
    reload.look({"2": Decision(False, "ann")}.get, previewing.now)
    reload.look({"2": Decision(True, "bob")}.get, previewing.now)
    assert previewing.tick(1.0) == 1
    previewing.says(with_checks("2", shop="b", news="a"))
    assert (previewing.live, reload.state.refused_by) == ("2", "")


def test_no_operator_decides_about_a_framework_that_failed(previewing: CheckedNode) -> None:
    reload = previewing.code_reload
    reload._asks = True
    previewing.loads("2", shop="b", news="a")
    previewing.checks(Checked({"shop": "shop.price: lost"}))
    reload.refuse("9", "a master of it could not take over")
    assert not reload.state.asks


def test_both_processes_end_with_the_check(previewing: CheckedNode) -> None:
    previewing.loads("2", shop="b", news="a")
    previewing.checks(Checked({}))
    assert (previewing.live, [one.killed for one in previewing.pool.checkers[-2:]]) == (
        "2",
        [True, True],
    )
