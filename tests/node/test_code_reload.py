"""Versions that go live, are refused or are tried again. The templates are not forked: the tests
send their messages."""

from __future__ import annotations

import selectors
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import msgspec
import pytest

from crawlframe.conf import Settings
from crawlframe.node.child_process import Child
from crawlframe.node.master.code_reload import (
    KILLS,
    MAX_CHANGES,
    MAX_PROBLEM,
    RETRY_PAUSE,
    UNFIT_PAUSE,
    CodeReload,
)
from crawlframe.node.master.supervisor_link import SupervisorLink
from crawlframe.node.master.template import Template
from crawlframe.node.master.worker_pool import WorkerPool
from crawlframe.node.messages import (
    CodeLoaded,
    FromTemplate,
    ImportingModule,
    LoadAll,
    LoadingVersion,
    Unsteady,
    child_line,
)
from crawlframe.node.supervisor_messages import (
    CheckoutPulled,
    CodeReport,
    FromMaster,
    InitialState,
    Reload,
    Serving,
    StillLoading,
    from_master,
    to_master,
)
from tests.node.parts import NO_SERVICES

SETTINGS = Settings(load_timeout=5.0)
SILENT = 60.0  # seconds, longer than any template may be silent
KILLED = -signal.SIGKILL


def loaded(version: str, **broken: str) -> CodeLoaded:
    return CodeLoaded("/spiders", version, f"digest {version}", f"r{version}", [], broken, [])


class NoTemplate(Template):
    """A template without a process. ``ended``: it is no longer needed."""

    skip: Mapping[str, str]
    cold = tolerant = ended = False
    base: Template | None = None  # the template that it was forked from

    def kill(self) -> None:
        self.child.retiring_since = 0.0
        self.ended = True

    def end(self) -> None:
        self.ended = True


class NoForks(WorkerPool):
    """A pool whose templates are not processes."""

    def __init__(self, stack: ExitStack) -> None:
        super().__init__(SETTINGS, NO_SERVICES, selectors.DefaultSelector())
        self._stack = stack
        self.templates: list[NoTemplate] = []
        self.forks = True  # whether templates can fork

    def start_template(self, skip: Mapping[str, str], *, cold: bool, tolerant: bool) -> Template:
        orders, (ours, theirs) = socket.socket(), child_line()
        for end in (orders, ours, theirs):
            self._stack.callback(end.close)
        template = NoTemplate(Child("template", 0, ours), orders)
        template.skip, template.cold, template.tolerant = {**skip}, cold, tolerant
        self.templates.append(template)
        return template

    def renew_template(self, template: Template) -> Template | None:
        if self.forks:
            self.start_template({}, cold=False, tolerant=False)
            self.templates[-1].base, self.templates[-1].renewed = template, True
            return self.templates[-1]
        return None


class Node:
    """A master's code_reload, with the time and the connection to the supervisor. ``staffed``: each
    version that is accepted has a worker at once."""

    staffed = True

    def __init__(self, stack: ExitStack) -> None:
        near, far = socket.socketpair()
        stack.callback(near.close)
        stack.callback(far.close)
        self.pool = NoForks(stack)
        self.code_reload = CodeReload(SETTINGS, self.pool, SupervisorLink(from_master(near)))
        self.now = 1000.0
        self._supervisor = to_master(far)

    @property
    def live(self) -> str:
        return self.code_reload.state.version

    @property
    def state(self) -> str:
        return self.code_reload.state.state

    @property
    def trial(self) -> NoTemplate:
        """The template that was started last."""
        return self.pool.templates[-1]

    def told(self) -> list[FromMaster]:
        """The messages to the supervisor since the last call, without heartbeats."""
        heard = self._supervisor.receive()
        return [message for message in heard if not isinstance(message, StillLoading)]

    def tick(self, seconds: float = 0.0, workers: int = 1) -> int:
        """Lets ``seconds`` pass. Returns how many templates were started then."""
        before = len(self.pool.templates)
        self.now += seconds
        self.code_reload.tick(workers, self.now)
        return len(self.pool.templates) - before

    def says(self, *messages: FromTemplate, template: NoTemplate | None = None) -> None:
        for message in messages:
            self.code_reload.on_message((template or self.trial).child, message, self.now)
        self.staff()

    def staff(self) -> None:
        """Lets the live version have a worker."""
        live = self.code_reload.live
        if self.staffed and isinstance(live, NoTemplate) and live.version != self.live:
            self.ready(live)

    def ready(self, template: NoTemplate) -> None:
        """A worker of this template is ready."""
        worker = Child("worker", 0, template.child.channel)
        worker.origin = template.loaded
        self.code_reload.worker_ready(worker, self.now)

    def dies(self, code: int, template: NoTemplate | None = None) -> None:
        self.code_reload.on_exit((template or self.trial).child, code, self.now)

    def change(self) -> NoTemplate:
        """Changes the code; returns the template that loads it."""
        self.code_reload.reload(Reload(self.now, "", ""))
        assert self.tick() == 1
        return self.trial

    def lives(self, version: str, **broken: str) -> NoTemplate:
        """Loads this version, which goes live."""
        template = self.change()
        self.says(LoadingVersion(version), loaded(version, **broken))
        assert (self.live, self.state) == (version, "live")
        return template


@pytest.fixture
def node() -> Iterator[Node]:
    with ExitStack() as stack:
        yield Node(stack)


@pytest.fixture
def live(node: Node) -> Node:
    """A node with version 1, whose module ``bad`` is broken."""
    node.lives("1", bad="bad.py:1: error")
    node.told()
    return node


# -- accepted -------------------------------------------------------------------------------------


def test_the_first_version_goes_live(node: Node) -> None:
    assert node.tick(workers=0) == 1
    assert (node.state, node.trial.cold) == ("loading", True)
    node.says(LoadingVersion("1"), ImportingModule("shops.shop"), ImportingModule(""))
    assert (node.state, node.code_reload.state.candidate) == ("loading", "1")
    node.says(loaded("1"))
    assert (node.live, node.state, node.code_reload.state.candidate) == ("1", "live", "")
    assert node.code_reload.live is node.trial
    assert node.tick() == 0


def test_of_the_first_version_whatever_loads_is_accepted(node: Node) -> None:
    node.tick()
    node.says(loaded("1", shop="shop.py:1: error"))
    assert (node.live, node.state) == ("1", "live")
    assert node.code_reload.state.problem == "shop.py:1: error"


def test_nothing_goes_live_as_long_as_no_worker_can_run(node: Node) -> None:
    node.tick(workers=0)
    unfit = msgspec.structs.replace(loaded("1"), unfit="no resolver")
    node.says(LoadingVersion("1"), unfit)
    assert (node.live, node.state, node.code_reload.live) == ("", "refused", None)
    assert node.code_reload.state.problem == "no resolver"
    assert node.trial.ended
    assert not node.code_reload.given_up
    assert node.tick(UNFIT_PAUSE - 0.1, workers=0) == 0
    assert node.tick(0.1, workers=0) == 1
    node.says(LoadingVersion("1"), loaded("1"))
    assert (node.live, node.state, node.code_reload.state.problem) == ("1", "live", "")


def test_a_version_with_which_no_worker_can_run_is_refused(live: Node) -> None:
    before = live.code_reload.live
    template = live.change()
    live.says(LoadingVersion("2"), msgspec.structs.replace(loaded("2"), unfit="no resolver"))
    assert (live.live, live.state, live.code_reload.live) == ("1", "refused", before)
    assert live.code_reload.state.problem == "no resolver"
    assert template.ended
    live.lives("3")


def test_a_good_version_follows(live: Node) -> None:
    before = live.trial
    template = live.change()
    assert (live.state, template.cold) == ("checking", False)
    live.says(LoadingVersion("2"))
    assert (live.live, live.code_reload.state.candidate) == ("1", "2")
    assert not before.ended
    live.says(loaded("2"))
    assert (live.live, live.state, live.code_reload.state.candidate) == ("2", "live", "")
    assert before.ended
    assert live.code_reload.live is template
    assert not template.ended
    assert live.code_reload.accepted == loaded("2")


def test_the_supervisor_hears_each_step(live: Node) -> None:
    live.change()
    live.says(LoadingVersion("2"), loaded("2"))
    *told, last = live.told()
    assert last == Serving()
    assert all(isinstance(message, CodeReport) for message in told)
    states = [(one.state.state, one.state.version) for one in told if isinstance(one, CodeReport)]
    assert states == [*[("checking", "1")] * 3, ("live", "2")]
    assert told[-1] == CodeReport(live.code_reload.state, loaded("2").summary)


def test_what_was_broken_before_may_stay_so(live: Node) -> None:
    live.change()
    live.says(loaded("2", bad="bad.py:2: error"))
    assert (live.live, live.state, live.code_reload.state.problem) == (
        "2",
        "live",
        "bad.py:2: error",
    )


def test_code_that_lives_already_begins_nothing(live: Node) -> None:
    before = live.code_reload.live
    template = live.change()
    live.says(loaded("1", bad="bad.py:1: error"))
    assert (live.live, live.state) == ("1", "live")
    assert live.code_reload.live is before
    assert template.ended


def test_the_first_worker_ends_the_reload(live: Node) -> None:
    def seen() -> tuple[str, str, str, int, float]:
        state = live.code_reload.state
        return state.version, state.state, state.candidate, state.reloads, state.seconds

    live.staffed, first = False, live.trial
    assert seen() == ("1", "live", "", 0, 0.0)  # it is the start of the node
    template = live.change()
    live.now += 2.0
    live.says(LoadingVersion("2"), loaded("2"))
    assert seen() == ("1", "checking", "2", 0, 0.0)  # accepted, but nothing runs it
    live.ready(first)
    assert seen() == ("1", "checking", "2", 0, 0.0)
    live.now += 0.5
    live.ready(template)
    assert seen() == ("2", "live", "", 1, 2.5)
    assert live.told()[-1] == Serving()
    live.now += 5.0
    live.ready(template)
    assert seen() == ("2", "live", "", 1, 2.5)


def test_a_worker_says_nothing_of_a_later_version(live: Node) -> None:
    """It is ready when the next version is already on trial, was refused, or is the same."""
    live.staffed, second = False, live.change()
    live.says(LoadingVersion("2"), loaded("2"))
    live.change()
    live.says(LoadingVersion("3"))
    live.ready(second)
    assert (live.live, live.state, live.code_reload.state.candidate) == ("2", "checking", "3")
    third = live.trial
    live.says(loaded("3"))
    live.change()
    live.says(LoadingVersion("4"), loaded("4", shop="shop.py:1: error"))
    live.ready(third)
    assert (live.live, live.state, live.code_reload.state.candidate) == ("3", "refused", "4")
    fifth = live.change()
    live.says(LoadingVersion("5"), loaded("5"))
    live.change()
    live.says(LoadingVersion("5"), loaded("5"))
    assert (live.live, live.state, live.code_reload.state.candidate) == ("3", "checking", "5")
    live.ready(fifth)
    assert (live.live, live.state, live.code_reload.state.candidate) == ("5", "live", "")


# -- refused --------------------------------------------------------------------------------------


def test_a_version_that_breaks_a_module_is_refused(live: Node) -> None:
    before = live.code_reload.live
    template = live.change()
    live.says(LoadingVersion("2"), loaded("2", shop="shop.py:3: error", bad="bad.py:1: error"))
    state = live.code_reload.state
    assert (live.live, live.state, state.candidate) == ("1", "refused", "2")
    assert state.problem == "shop.py:3: error"  # not the earlier problem
    assert live.code_reload.live is before
    assert template.ended
    assert live.tick(SILENT) == 0  # until the code changes again
    assert not live.code_reload.given_up


def test_what_was_fixed_must_stay_fixed(live: Node) -> None:
    live.lives("2")
    live.change()
    live.says(loaded("3", bad="bad.py:1: error"))
    assert (live.live, live.state) == ("2", "refused")


def test_back_to_what_lives_after_a_refusal(live: Node) -> None:
    live.change()
    live.says(loaded("2", shop="error"))
    live.change()
    live.says(loaded("1", bad="bad.py:1: error"))
    assert (live.live, live.state, live.code_reload.state.candidate) == ("1", "live", "")


def test_long_problems_are_cut(live: Node) -> None:
    live.change()
    live.says(loaded("2", shop="x" * 2 * MAX_PROBLEM))
    assert len(live.code_reload.state.problem) == MAX_PROBLEM
    live.code_reload.refuse("3", "x" * 2 * MAX_PROBLEM)
    assert len(live.code_reload.state.problem) == MAX_PROBLEM


def test_a_master_that_is_to_follow_gives_up_what_is_worse(node: Node) -> None:
    node.code_reload.follow(InitialState([1], ["bad"], 900.0, "origin/main", "ab", "", 6, 7))
    state = node.code_reload.state
    assert (state.follows, state.pulled, state.rollout) == ("origin/main", "ab", 6)
    node.tick(workers=0)
    assert not node.trial.cold
    node.says(loaded("2", shop="error", bad="error"))
    assert node.state == "refused"
    assert node.code_reload.given_up
    assert node.code_reload.live is None


def test_a_master_that_is_to_follow_takes_what_is_no_worse(node: Node) -> None:
    node.code_reload.follow(InitialState([1], ["bad"], 900.0, "", "", "", 0, 0))
    node.tick(workers=0)
    node.says(loaded("2", bad="error"))
    assert (node.live, node.state) == ("2", "live")
    node.change()
    node.says(loaded("3", shop="error"))
    assert node.state == "refused"
    assert not node.code_reload.given_up  # the live version can continue


def test_what_the_supervisor_refuses_and_pulls_is_reported(live: Node) -> None:
    live.code_reload.refuse("2+", "its master died")
    assert (live.state, live.code_reload.state.candidate) == ("refused", "2+")
    live.code_reload.reports.pulled(CheckoutPulled("cd", "dirty", 8))
    state = live.code_reload.state
    assert (state.pulled, state.pull_problem, state.rollout) == ("cd", "dirty", 8)
    assert [type(message) for message in live.told()] == [CodeReport, CodeReport]


# -- tried again ----------------------------------------------------------------------------------


def test_what_changes_during_a_trial_gets_another(live: Node) -> None:
    live.change()
    live.code_reload.reload(Reload(live.now, "", ""))
    assert live.tick() == 0
    live.says(loaded("2"))
    assert live.tick() == 1
    live.says(loaded("3"))
    assert live.live == "3"


def test_code_that_changed_while_it_was_loaded_is_loaded_again(live: Node) -> None:
    template = live.change()
    live.says(LoadingVersion("2"), Unsteady("shop.py changed"))
    assert not template.child.staying
    assert live.tick() == 0
    assert live.tick(RETRY_PAUSE) == 1
    live.says(loaded("3"))
    assert live.live == "3"


def test_code_that_changes_all_the_time_is_refused(live: Node) -> None:
    live.change()
    for _ in range(MAX_CHANGES - 1):
        live.says(LoadingVersion("2"), Unsteady("shop.py changed"))
        assert live.tick(RETRY_PAUSE) == 1
    live.says(LoadingVersion("2"), Unsteady("shop.py changed"))
    assert live.tick(RETRY_PAUSE) == 0
    assert (live.live, live.state) == ("1", "refused")
    assert live.code_reload.state.problem == f"shop.py changed, {MAX_CHANGES} times in a row"


def test_without_a_live_version_unsteady_code_is_taken(node: Node) -> None:
    node.tick(workers=0)
    for number in range(MAX_CHANGES):
        assert not node.trial.tolerant
        node.says(Unsteady("shop.py changed"))
        assert node.tick(RETRY_PAUSE, workers=0) == 1, number
    assert node.trial.tolerant
    node.says(Unsteady("shop.py changed"), loaded("1"))
    assert (node.live, node.state) == ("1", "live")


def test_a_template_that_was_killed_is_tried_again(live: Node) -> None:
    live.change()
    for _ in range(KILLS):
        live.says(LoadingVersion("2"), ImportingModule("shop"))
        live.dies(KILLED)
        assert live.tick() == 0
        assert live.tick(RETRY_PAUSE) == 1
    live.says(LoadingVersion("2"), ImportingModule("shop"))
    live.dies(KILLED)
    assert (live.live, live.state) == ("1", "refused")
    assert live.code_reload.state.problem == "shop: the process that imports it died (SIGKILL)"


@pytest.mark.parametrize(("killed", "times"), [(True, KILLS), (False, MAX_CHANGES - 1)])
def test_troubles_of_two_changes_are_not_added(live: Node, killed: bool, times: int) -> None:
    for version in ("2", "3"):
        live.change()
        for _ in range(times):
            if killed:
                live.dies(KILLED)
            else:
                live.says(Unsteady("shop.py changed"))
            assert live.tick(RETRY_PAUSE) == 1
        live.says(loaded(version))
        assert live.live == version


def test_a_module_that_ends_its_process_is_refused(live: Node) -> None:
    live.change()
    live.says(LoadingVersion("2"), ImportingModule("shop"))
    live.dies(7)
    assert (live.state, live.code_reload.state.candidate) == ("refused", "2")
    assert live.code_reload.state.problem == "shop: the process that imports it died (exit code 7)"


def test_a_module_that_ended_its_process_before_is_left_out(live: Node) -> None:
    live.change()
    live.says(ImportingModule("bad"))
    live.dies(7)
    assert live.tick(RETRY_PAUSE) == 1
    assert live.trial.skip.keys() == {"bad"}
    live.says(loaded("2", bad="the process that imports it died"))
    assert (live.live, live.state) == ("2", "live")
    live.code_reload.preload(live.now)  # without the module it would be judged as with it
    live.change()
    assert live.trial.skip == {}  # it may be mended


def test_without_anything_else_such_a_module_is_left_out(node: Node) -> None:
    node.tick(workers=0)
    node.says(ImportingModule("shop"))
    node.dies(7)
    assert node.tick(RETRY_PAUSE, workers=0) == 1
    assert node.trial.skip.keys() == {"shop"}


def test_a_template_that_says_nothing_is_killed_and_refused(live: Node) -> None:
    template = live.change()
    live.says(LoadingVersion("2"), ImportingModule("shop"))
    template.child.last_beat = live.now
    assert live.tick(SETTINGS.load_timeout) == 0
    assert not template.ended
    live.tick(SILENT)
    assert template.ended
    live.dies(KILLED)
    assert live.state == "refused"
    assert live.code_reload.state.problem.startswith("shop: the process that imports it was silent")


def test_a_template_that_dies_while_its_version_lives_is_loaded_again(live: Node) -> None:
    before = live.trial
    live.dies(KILLED, before)
    assert live.code_reload.live is None
    assert live.tick() == 0
    assert live.tick(RETRY_PAUSE) == 1
    live.says(loaded("1", bad="bad.py:1: error"))
    assert live.live == "1"
    assert live.code_reload.live is not None
    assert live.code_reload.live.child is live.trial.child
    assert live.trial.loaded is before.loaded  # so its workers count as before


# -- loaded ahead ---------------------------------------------------------------------------------


def test_what_is_loaded_ahead_is_judged_when_it_is_asked_for(live: Node) -> None:
    live.code_reload.preload(live.now)
    template = live.trial
    live.says(LoadingVersion("2"), loaded("2"))
    assert (live.live, live.state, live.told()) == ("1", "live", [])  # it is not reported
    live.code_reload.reload(Reload(live.now, "digest 2", "r2"))
    assert (live.state, live.code_reload.live) == ("checking", template)
    live.ready(template)
    assert (live.live, live.state) == ("2", "live")
    assert live.tick() == 0


def test_it_may_be_asked_for_while_it_loads(live: Node) -> None:
    live.code_reload.preload(live.now)
    live.says(LoadingVersion("2"))
    live.code_reload.reload(Reload(live.now, "digest 2", "r2"))
    assert (live.state, live.code_reload.state.candidate) == ("checking", "2")
    live.says(loaded("2"))
    assert live.live == "2"
    assert live.tick() == 0


@pytest.mark.parametrize(("digest", "revision"), [("digest 3", "r2"), ("digest 2", "r3")])
def test_what_is_not_what_was_asked_for_is_loaded_again(
    live: Node, digest: str, revision: str
) -> None:
    live.code_reload.preload(live.now)
    ahead = live.trial
    live.says(loaded("2"))
    live.code_reload.reload(Reload(live.now, digest, revision))
    assert live.live == "1"
    assert ahead.ended
    assert live.trial is not ahead
    live.says(loaded("3"))
    assert live.live == "3"


def test_a_preloaded_version_that_is_dropped_ends(live: Node) -> None:
    live.code_reload.preload(live.now)
    live.says(loaded("2"))
    live.code_reload.drop_preload()
    assert live.trial.ended
    assert (live.live, live.tick()) == ("1", 0)


def test_what_fails_ahead_is_no_news(live: Node) -> None:
    for failure in (Unsteady("shop.py changed"), None):
        live.code_reload.preload(live.now)
        if failure:
            live.says(failure)
        else:
            live.says(ImportingModule("shop"))
            live.dies(7)
        assert (live.state, live.told(), live.tick(RETRY_PAUSE)) == ("live", [], 0)


def test_nothing_is_loaded_ahead_of_a_trial(live: Node) -> None:
    live.change()
    before = len(live.pool.templates)
    live.code_reload.preload(live.now)
    assert len(live.pool.templates) == before


# -- renewed --------------------------------------------------------------------------------------

RENEWABLE = msgspec.structs.replace(loaded("2"), renewable=True)


@pytest.fixture
def renewable(live: Node) -> Node:
    """A node whose live template can fork its successor."""
    live.change()
    live.says(LoadingVersion("2"), RENEWABLE)
    assert live.live == "2"
    return live


def test_a_template_is_forked_from_the_live_one(live: Node) -> None:
    assert live.change().base is None  # it cannot
    live.says(RENEWABLE)
    before = live.code_reload.live
    assert live.change().base is before
    live.says(loaded("3"))
    assert live.live == "3"
    assert live.change().base is None


def test_a_template_that_cannot_fork_is_replaced(renewable: Node) -> None:
    renewable.pool.forks = False
    assert renewable.change().base is None


def test_everything_is_loaded_when_a_renewal_is_not_enough(renewable: Node) -> None:
    live = renewable.code_reload.live
    renewable.code_reload.preload(renewable.now)
    ahead = renewable.trial
    renewable.says(LoadAll("something refers to the old shop"))
    assert not ahead.child.staying
    whole = renewable.trial
    assert (ahead.base, whole.base, whole.ahead) == (live, None, True)
    renewable.code_reload.reload(Reload(renewable.now, "digest 3", "r3"))
    renewable.says(loaded("3"))
    assert (renewable.live, renewable.code_reload.live) == ("3", whole)


def test_a_renewal_that_was_asked_for_meanwhile_is_judged(renewable: Node) -> None:
    renewable.code_reload.preload(renewable.now)
    renewable.code_reload.reload(Reload(renewable.now, "digest 3", "r3"))
    renewable.says(LoadAll("something refers to the old shop"), loaded("3"))
    assert renewable.live == "3"


def test_a_renewal_that_dies_is_followed_by_a_load(renewable: Node) -> None:
    renewable.change()
    renewable.dies(KILLED)
    assert renewable.tick(RETRY_PAUSE) == 1
    assert renewable.trial.base is None
    renewable.says(RENEWABLE)
    assert renewable.change().base is not None
    renewable.says(ImportingModule("shop"))
    renewable.dies(-signal.SIGSEGV)
    assert renewable.state == "checking"  # the module may not be to blame
    assert renewable.tick(RETRY_PAUSE) == 1
    assert renewable.trial.base is None
    renewable.says(loaded("3"))
    assert renewable.live == "3"


def test_a_renewal_that_dies_ahead_is_followed_by_a_load(renewable: Node) -> None:
    renewable.code_reload.preload(renewable.now)
    renewable.dies(KILLED)
    assert renewable.change().base is None


def test_workers_are_prepared_only_for_what_will_be_accepted(renewable: Node) -> None:
    reload = renewable.code_reload
    for unlikely in (
        loaded("3", shop="shop.py:1: error"),
        msgspec.structs.replace(loaded("3"), unfit="no resolver"),
        msgspec.structs.replace(loaded("3"), checks={"shop": "mark"}),
        RENEWABLE,
    ):
        reload.preload(renewable.now)
        assert reload.ahead is None  # it is loading
        renewable.says(unlikely)
        assert reload.ahead is None
        reload.drop_preload()
    reload.preload(renewable.now)
    renewable.says(loaded("3"))
    assert reload.ahead is renewable.trial
    reload.reload(Reload(renewable.now, "digest 3", "r3"))
    assert reload.ahead is None


def test_at_the_end_no_template_is_left(live: Node) -> None:
    first, trial = live.trial, live.change()
    live.code_reload.end()
    assert first.ended
    assert trial.ended
    assert live.code_reload.live is None
