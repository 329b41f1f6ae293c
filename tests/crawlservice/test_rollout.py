"""Rollout: recipients of an announcement, nodes that are waited for, and the fate of a canary."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from io import StringIO
from itertools import count, groupby
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connections
from redis import RedisError
from rich.console import Console

from crawlframe.errors import ArgumentError
from crawlframe.frontier import Frontier
from crawlframe.frontier.cluster.rollouts import Rollout
from crawlservice.management.commands import node as command_module
from crawlservice.management.commands.node import NodesView
from crawlservice.models import Page, Task
from crawlservice.rollouts import canary, rollout
from crawlservice.rollouts.canary import CanaryTrial, exception_of
from crawlservice.rollouts.rollout import RolloutFailed, RolloutRun, full_revision
from crawlservice.rollouts.status import NodeStatus, Phase, lives
from crawlservice.tasks.submit import submit
from tests.crawlservice.conftest import redis_at
from tests.crawlservice.fleet import Fleet
from tests.repository import Repository

OLD, NEW, NEWER = "1" * 40, "2" * 40, "3" * 40
OLD12, NEW12, NEWER12 = OLD[:12], NEW[:12], NEWER[:12]

AddPage = Callable[..., Page]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "POLL_EVERY", 0.002)


@pytest.fixture
def fleet(published: Frontier) -> Fleet:
    """Two nodes that follow main and run OLD."""
    fleet = Fleet(published)
    fleet.add("alpha", OLD12)
    fleet.add("beta", OLD12)
    return fleet


class Watcher:
    """Lets the fleet tick at each poll, and keeps the output."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.shown: list[dict[str, NodeStatus]] = []
        self.notes: list[str] = []
        self.each_time: Callable[[], None] = lambda: None

    def show(self, found: list[NodeStatus], note: str) -> None:
        self.shown.append({one.node: one for one in found})
        self.notes.append(note)
        self.fleet.tick()
        self.each_time()

    def phases(self, node: str) -> list[str]:
        """The phases of a node, each once."""
        seen = [stand[node].phase for stand in self.shown if node in stand]
        return [str(phase) for phase, _ in groupby(seen)]

    @property
    def last(self) -> dict[str, str]:
        return {name: str(one.phase) for name, one in self.shown[-1].items()}


@pytest.fixture
def watcher(fleet: Fleet) -> Watcher:
    return Watcher(fleet)


def roll(watcher: Watcher, revision: str = NEW, **options: Any) -> RolloutRun:
    return RolloutRun(revision, watcher.show, **{"timeout": 20.0, **options})


def failing(run: RolloutRun) -> str:
    with pytest.raises(RolloutFailed) as raised:
        run.run()
    return str(raised.value)


# -- all nodes --


def test_every_node_goes_from_announced_to_live(watcher: Watcher) -> None:
    roll(watcher).run()
    for node in ("alpha", "beta"):
        assert watcher.phases(node) == ["announced", "pulled", "checking", "live"]
    (told,) = watcher.fleet.told["alpha"]
    assert (told.revision, told.branch, told.nodes, told.back) == (NEW, "main", (), False)
    roll(watcher).run()  # once more, when all have it
    assert watcher.last == {"alpha": "live", "beta": "live"}


def test_a_node_that_refuses_fails_the_rollout_after_all_have_answered(watcher: Watcher) -> None:
    watcher.fleet.refusals[NEW12] = "spiders/shop.py:3: SyntaxError\nTraceback of many lines"
    watcher.fleet.add("gamma", NEW12)  # it has it already
    text = failing(roll(watcher))
    assert "alpha refused: spiders/shop.py:3: SyntaxError; beta refused: " in text
    assert "Traceback" not in text
    assert "gamma" not in text
    assert "rollout REVISION --back" in text
    assert watcher.last == {"alpha": "refused", "beta": "refused", "gamma": "live"}
    assert watcher.phases("alpha") == ["announced", "pulled", "checking", "refused"]


def test_a_node_that_cannot_pull_fails_the_rollout(watcher: Watcher) -> None:
    watcher.fleet.obstacles["beta"] = "the checkout /srv/x has local changes: a.py"
    text = failing(roll(watcher))
    assert "beta could not pull: the checkout /srv/x has local changes: a.py" in text
    assert watcher.last == {"alpha": "live", "beta": "not pulled"}


def test_what_a_node_said_before_is_no_answer(watcher: Watcher) -> None:
    """Neither the refusal of an earlier pull counts, nor that it had pulled this revision
    before."""
    watcher.fleet.change("alpha", pull_problem="no route to host", rollout=1, pulled=NEW12)
    watcher.fleet.change("beta", state="refused", candidate=NEWER12, problem="x.py:1: E")
    roll(watcher).run()
    for node in ("alpha", "beta"):
        assert watcher.phases(node) == ["announced", "pulled", "checking", "live"]


def test_nodes_that_do_not_follow_are_shown_and_not_waited_for(watcher: Watcher) -> None:
    watcher.fleet.add("gamma", OLD12, follows="")
    watcher.fleet.add("delta", OLD12, follows="origin/test")
    watcher.fleet.add("gone", OLD12)
    watcher.fleet.fall_silent("gone")
    watcher.fleet.mute.add("gone")
    roll(watcher, branch="main").run()
    assert watcher.last == {
        "alpha": "live",
        "beta": "live",
        "gamma": "not following",
        "delta": "not told",
        "gone": "offline",
    }
    assert watcher.shown[-1]["delta"].why == "follows origin/test"
    assert not watcher.fleet.told["delta"]


@pytest.mark.parametrize("way", ["die", "fall_silent"])
def test_a_node_that_dies_meanwhile_is_waited_for(watcher: Watcher, way: str) -> None:
    fleet = watcher.fleet
    fleet.mute.add("beta")

    def lose() -> None:
        if watcher.last == {"alpha": "live", "beta": "announced"}:
            getattr(fleet, way)("beta")

    watcher.each_time = lose
    text = failing(roll(watcher, timeout=0.5))
    assert "after 0.5 s: beta is offline." in text
    assert "announced to all nodes that follow main, and is not taken back" in text
    assert "rollout --status" in text
    # It comes back, and catches up.
    watcher.each_time = lambda: None
    fleet.mute.clear()
    fleet.add("beta", OLD12)
    fleet.tick()
    assert fleet.told["beta"][0].revision == NEW


def test_a_node_that_comes_meanwhile_is_waited_for(watcher: Watcher) -> None:
    def come() -> None:
        if watcher.last["alpha"] == "checking" and "late" not in watcher.fleet.nodes:
            watcher.fleet.add("late", OLD12)

    watcher.each_time = come
    roll(watcher).run()
    assert watcher.last["late"] == "live"


def test_of_a_nodes_lives_the_one_that_stays_counts(watcher: Watcher) -> None:
    fleet = watcher.fleet
    fleet.leave("alpha")
    fleet.mute.add("alpha")
    leaving = fleet.nodes["alpha"]
    fleet.add("alpha", OLD12)
    fleet.mute.clear()
    roll(watcher).run()
    assert watcher.last == {"alpha": "live", "beta": "live"}
    assert leaving.code.version == OLD12


def test_files_that_are_not_those_of_the_revision_are_not_live(watcher: Watcher) -> None:
    fleet = watcher.fleet

    def edit() -> None:
        if fleet.nodes["beta"].code.candidate == NEW12:
            fleet.mute.add("beta")
            fleet.change("beta", version=f"{NEW12}+abc", state="live", candidate="")

    watcher.each_time = edit
    text = failing(roll(watcher, timeout=0.5))
    assert f"beta is pulled: its files differ from the revision: {NEW12}+abc" in text


def test_another_rollout_meanwhile_ends_this_one(watcher: Watcher) -> None:
    fleet = watcher.fleet
    fleet.mute.add("alpha")
    other = Rollout(NEWER, "test")

    def announce() -> None:
        nonlocal other
        if watcher.last["beta"] == "live":
            fleet.frontier.rollouts.announce(other)
            other = Rollout(NEWER, "main", ("alpha",))

    watcher.each_time = announce
    assert f"somebody announced {NEWER12} meanwhile" in failing(roll(watcher))
    newest = fleet.frontier.rollouts.current()
    assert newest is not None
    assert newest.branch == "main"  # the rollout of another branch did not end it


def test_redis_that_is_away_for_a_moment_is_waited_for(
    watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = lives, count()

    def flaky() -> Any:
        if next(calls) == 2:
            raise RedisError("gone")
        return real()

    monkeypatch.setattr(rollout, "lives", flaky)
    roll(watcher).run()
    assert "Redis does not answer: gone" in watcher.notes


def test_back_is_passed_on(watcher: Watcher) -> None:
    roll(watcher, OLD, back=True).run()
    assert watcher.fleet.told["alpha"][0].back


@pytest.mark.parametrize(
    ("follows", "options", "words"),
    [
        ((), {}, "no living node follows a branch; start nodes with"),
        (("", ""), {}, "no living node follows a branch"),
        (("origin/main", "origin/test"), {}, "different branches (main, test); say which"),
        (("origin/main",), {"branch": "mian"}, "follows 'mian' (did you mean 'main'?); followed:"),
        (("origin/main",), {"canary": "node"}, "'node' (did you mean 'node0'?); these live: node0"),
        (("origin/main", ""), {"canary": "node1"}, "node node1 follows no branch; take one"),
        (
            ("origin/main", "up/test"),
            {"canary": "node1", "branch": "main"},
            "node node1 follows up/test; take one that follows main",
        ),
    ],
)
def test_bad_input_announces_nothing(
    published: Frontier, follows: tuple[str, ...], options: dict[str, Any], words: str
) -> None:
    fleet = Fleet(published)
    for number, branch in enumerate(follows):
        fleet.add(f"node{number}", OLD12, follows=branch)
    with pytest.raises(ArgumentError) as raised:
        roll(Watcher(fleet), **options).run()
    assert words in str(raised.value)
    assert published.rollouts.current() is None


def test_a_canary_among_nodes_that_pull_by_themselves(published: Frontier) -> None:
    """They would not wait for it. Nodes of other branches do not matter."""
    fleet = Fleet(published)
    for name, branch, every in (
        ("alpha", "main", 0.0), ("beta", "main", 10.0), ("gamma", "test", 10.0),
    ):  # fmt: skip
        fleet.add(name, OLD12, follows=f"origin/{branch}", follow_every=every)
    with pytest.raises(ArgumentError, match=r"^beta: nodes that pull main by themselves"):
        roll(Watcher(fleet), canary="alpha", branch="main").run()
    assert published.rollouts.current() is None


# -- a canary --


@pytest.fixture
def task(published: Frontier) -> Task:
    return submit("shop", {"city": "Ulm"})


@pytest.fixture
def run_pages(watcher: Watcher, task: Task, add_page: AddPage) -> Callable[..., None]:
    """Lets each live node run a page per tick: ``run_pages(**fields)`` for pages of NEW."""
    numbers = count()

    def run(pages: int = 1000, **fields: Any) -> None:
        left = iter(range(pages))

        def at_work(node: str, version: str) -> None:
            mine = fields if version == NEW12 else {}
            if version != NEW12 or next(left, None) is not None:
                add_page(task, b"%d" % next(numbers), version=version, **mine)

        watcher.fleet.at_work = at_work

    return run


def error(exception: str = "KeyError: 'price'", **fields: Any) -> dict[str, Any]:
    """The fields of a page whose callback raised."""
    detail = f'  File "spiders/shop.py", line 3, in parse\n    x\n    ^\n{exception}\n'
    return {"state": Page.State.ERROR, "reason": "callback", "detail": detail} | fields


def test_the_others_follow_when_the_canary_has_proved_it(
    watcher: Watcher, run_pages: Callable[..., None]
) -> None:
    run_pages()
    told_before: list[int] = []

    def look() -> None:
        if not watcher.fleet.told["beta"]:
            told_before.append(Page.objects.filter(version=NEW12).count())

    watcher.each_time = look
    roll(watcher, canary="alpha", pages=5).run()
    first, second = watcher.fleet.told["alpha"]
    assert (first.nodes, first.before, first.back) == (("alpha",), OLD12, False)
    assert second.nodes == ()
    assert told_before[-1] >= 5
    assert {stand["beta"].phase for stand in watcher.shown if stand["alpha"].phase == "checking"}
    assert watcher.phases("beta") == ["not told", "announced", "pulled", "checking", "live"]
    assert "3 of 5 pages" in watcher.notes


def test_a_new_kind_of_error_takes_the_canary_back(
    watcher: Watcher, run_pages: Callable[..., None]
) -> None:
    run_pages(**error())
    text = failing(roll(watcher, canary="alpha", pages=5))
    assert f"canary alpha had an error with {NEW12} that no other version had: " in text
    assert "callback (KeyError) in shop.parse, for instance http://shop.example/" in text
    assert "KeyError: 'price'" in text
    assert f"It is back on {OLD12}, and no other node was affected" in text
    _, back = watcher.fleet.told["alpha"]
    assert (back.revision, back.back, back.nodes) == (OLD12, True, ("alpha",))
    assert watcher.fleet.told["beta"] == []
    assert watcher.fleet.frontier.rollouts.of("beta") is None
    assert watcher.last == {"alpha": "live", "beta": "not told"}
    assert watcher.shown[-1]["alpha"].version == OLD12


def test_the_full_revision_is_gone_back_to_where_git_knows_it(
    watcher: Watcher,
    run_pages: Callable[..., None],
    settings_with: Callable[..., None],
    tmp_path: Path,
) -> None:
    clone = Repository.bare(tmp_path / "remote.git").clone(tmp_path / "clone")
    known = clone.commit({"x": "x"})
    settings_with(BASE_DIR=clone.path)
    watcher.fleet.change("alpha", version=known[:12])
    run_pages(**error())
    failing(roll(watcher, canary="alpha"))
    assert watcher.fleet.told["alpha"][1].revision == known


def test_kinds_of_errors(task: Task, add_page: AddPage) -> None:
    for earlier, now, known in (
        (error(), error("KeyError: 'other'"), True),
        (error(), error("KeyError: 'x'\nmore\n  lines"), True),
        (error(), error("ValueError: 'price'"), False),
        (error("ValueError: no KeyError"), error(), False),
        (error(), error(callback="detail"), False),
        (error(), {"state": "error", "reason": "http_404", "detail": "x answered 404"}, False),
        ({"state": "error", "reason": "http_404"}, {"state": "error", "reason": "http_404"}, True),
        ({"state": "error", "reason": "http_404"}, {"state": "error", "reason": "http_410"}, False),
        ({}, {"state": "error", "reason": "cancelled"}, True),
        ({"detail": "KeyError"}, error(), False),
    ):
        Page.objects.all().delete()
        add_page(task, b"before", version=OLD12, **earlier)
        trial = CanaryTrial(NEW12)
        add_page(task, b"now", version=NEW12, **now)
        finding = trial.check()
        assert (finding is None) is known
        if finding is not None:
            assert finding.url == "http://shop.example/now"
        assert trial.pages == 1


def test_another_spiders_error_is_of_another_kind(task: Task, add_page: AddPage) -> None:
    add_page(task, b"before", version=OLD12, **error())
    trial = CanaryTrial(NEW12)
    other = Task.objects.create(spider="other", seeds=b"")
    add_page(other, b"now", version=NEW12, **error())
    finding = trial.check()
    assert finding is not None
    assert str(finding.kind) == "callback (KeyError) in other.parse"


def test_what_another_version_meets_meanwhile_is_not_new(task: Task, add_page: AddPage) -> None:
    trial = CanaryTrial(NEW12)
    add_page(task, b"here", version=NEW12, state="error", reason="http_503")
    add_page(task, b"there", version=OLD12, state="error", reason="http_503")
    assert trial.check() is None


def test_errors_of_long_ago_do_not_count(
    task: Task, add_page: AddPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_page(task, b"before", version=OLD12, **error())
    add_page(task, b"after", version=OLD12)
    trial = CanaryTrial(NEW12)
    add_page(task, b"now", version=NEW12, **error())
    monkeypatch.setattr(canary, "LOOK_BACK", 2)
    assert trial.check() is not None
    monkeypatch.setattr(canary, "LOOK_BACK", 3)
    assert CanaryTrial(NEW12).check() is None


def test_a_trial_counts_each_page_of_its_version_once(
    task: Task, add_page: AddPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary, "OVERTAKING_ROWS", 4)
    add_page(task, b"long ago", version=NEW12)
    start = add_page(task, b"before", version=NEW12).pk
    trial = CanaryTrial(NEW12)
    add_page(task, b"a", version=NEW12, pk=start + 3)
    add_page(task, b"b", version=OLD12, pk=start + 4)
    add_page(task, b"c", version=f"{NEW12}+abc", pk=start + 5)
    assert (trial.check(), trial.pages) == (None, 1)
    add_page(task, b"late", version=NEW12, pk=start + 2)  # its transaction took longer
    assert (trial.check(), trial.pages) == (None, 2)
    add_page(task, b"d", version=NEW12, pk=start + 9)
    assert (trial.check(), trial.pages) == (None, 3)
    assert (trial.check(), trial.pages) == (None, 3)


def test_pages_from_before_the_rollout_prove_nothing(
    watcher: Watcher, task: Task, add_page: AddPage
) -> None:
    for number in range(5):
        add_page(task, b"%d" % number, version=NEW12)
    text = failing(roll(watcher, canary="alpha", pages=5, timeout=0.5))
    assert "canary alpha ran 0 of 5 pages" in text


def test_too_few_pages_leave_the_canary_as_it_is(
    watcher: Watcher, run_pages: Callable[..., None]
) -> None:
    run_pages(pages=3)
    text = failing(roll(watcher, canary="alpha", pages=50, timeout=0.5))
    assert f"canary alpha ran 3 of 50 pages with {NEW12} in 0.5 s" in text
    assert "It stays as it is, and no other node was affected" in text
    assert f"Wait longer: python manage.py node rollout {NEW12} --canary alpha --pages 50" in text
    assert f"Roll out to all nodes: python manage.py node rollout {NEW12}\n" in text
    assert f"Go back: python manage.py node rollout {OLD12} --back" in text
    assert watcher.last == {"alpha": "live", "beta": "not told"}
    assert len(watcher.fleet.told["alpha"]) == 1

    # Waited longer, and then there is an error: its earlier pages are still known.
    run_pages(**error())
    text = failing(roll(watcher, canary="alpha", pages=50))
    assert f"It is back on {OLD12}" in text
    assert watcher.shown[-1]["alpha"].version == OLD12


def test_a_canary_whose_earlier_code_is_not_known_stays(
    watcher: Watcher, run_pages: Callable[..., None]
) -> None:
    watcher.fleet.change("alpha", version=NEW12)
    run_pages(**error())
    text = failing(roll(watcher, canary="alpha", pages=5))
    assert "What it ran before is unknown, and no other node was affected" in text
    assert len(watcher.fleet.told["alpha"]) == 1


def test_a_canary_that_refuses_goes_back(watcher: Watcher) -> None:
    watcher.fleet.refusals[NEW12] = "spiders/shop.py:3: SyntaxError\nTraceback"
    text = failing(roll(watcher, canary="alpha"))
    assert "canary alpha refused: spiders/shop.py:3: SyntaxError.\n" in text
    assert f"It is back on {OLD12}, and no other node was affected" in text
    assert watcher.phases("alpha")[-3:] == ["refused", "announced", "live"]


def test_a_canary_that_cannot_pull_is_as_it_was(watcher: Watcher) -> None:
    watcher.fleet.obstacles["alpha"] = "the checkout has local changes"
    text = failing(roll(watcher, canary="alpha"))
    assert "canary alpha could not pull: the checkout has local changes.\n" in text
    assert f"Its checkout was left as it was, at {OLD12}, and no other node was affected" in text
    # No announcement remains that it would carry out after a restart.
    told = watcher.fleet.frontier.rollouts.of("alpha")
    assert told is not None
    assert (told.revision, told.back) == (OLD12, True)


def test_a_canary_that_does_not_go_back_is_reported(
    watcher: Watcher, run_pages: Callable[..., None]
) -> None:
    run_pages(**error())

    def mute() -> None:
        if watcher.fleet.nodes["alpha"].code.version == NEW12:
            watcher.fleet.mute.add("alpha")

    watcher.each_time = mute
    text = failing(roll(watcher, canary="alpha", timeout=0.5))
    assert f"It was asked to go back to {OLD12} and is still announced, and no other node" in text


def test_a_canary_whose_code_somebody_changes_proves_nothing(
    watcher: Watcher, run_pages: Callable[..., None]
) -> None:
    run_pages(pages=2)

    def change() -> None:
        if watcher.notes[-1] == "2 of 5 pages":
            watcher.fleet.mute.add("alpha")
            watcher.fleet.change("alpha", version=NEWER12)

    watcher.each_time = change
    text = failing(roll(watcher, canary="alpha", pages=5))
    assert f"canary alpha runs {NEWER12} now: somebody else changed its code" in text
    assert watcher.fleet.told["beta"] == []


def test_a_canary_may_restart_meanwhile(watcher: Watcher, run_pages: Callable[..., None]) -> None:
    run_pages()
    restarted: list[str] = []

    def restart() -> None:
        if watcher.notes[-1].startswith("2 of") and not restarted:
            watcher.fleet.die("alpha")
            restarted.append("alpha")
        elif restarted == ["alpha"] and watcher.last["alpha"] == "offline":
            watcher.fleet.add("alpha", "", state="loading")
            restarted.append("again")

    watcher.each_time = restart
    roll(watcher, canary="alpha", pages=5).run()
    assert restarted == ["alpha", "again"]
    assert watcher.last == {"alpha": "live", "beta": "live"}


def test_a_database_that_is_away_for_a_moment_is_waited_for(
    watcher: Watcher, run_pages: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_pages()
    real, calls = CanaryTrial.check, count()

    def flaky(trial: CanaryTrial) -> Any:
        if next(calls) == 1:
            raise OperationalError("the server closed the connection")
        return real(trial)

    monkeypatch.setattr(CanaryTrial, "check", flaky)
    roll(watcher, canary="alpha", pages=5).run()
    assert next(calls) > 2


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        (error()["detail"], "KeyError"),
        (error("shop.Odd: a\nb: c\n    d")["detail"], "shop.Odd"),
        (error("StopIteration")["detail"], "StopIteration"),
        ("SpiderError: a callback yielded int 3", "SpiderError"),
        ('  File "<string>", line 1\n    x y\n      ^\nSyntaxError: invalid syntax', "SyntaxError"),
        ("", ""),
    ],
)
def test_the_exception_of_a_traceback(detail: str, expected: str) -> None:
    assert exception_of(detail) == expected


# -- the command --


@pytest.fixture
def running(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, ticking in the background."""
    stop = threading.Event()

    def run() -> None:
        fleet.run(stop)
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    yield fleet
    stop.set()
    thread.join()


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("node", "rollout", *arguments, stdout=out, stderr=out)
    return out.getvalue()


def test_the_command_says_what_changes(running: Fleet) -> None:
    running.add("gamma", OLD12, follows="")
    assert command(NEW, "--dry-run").endswith(f"this would roll out {NEW} to: alpha, beta\n")
    assert running.frontier.rollouts.current() is None
    lines = command(NEW).splitlines()
    assert lines[0] == f"rolling out {NEW}"
    assert {line for line in lines if line.startswith("alpha")} >= {"alpha: live"}
    assert "gamma: not following" in lines
    assert lines[-2] == f"every living node that follows main runs {NEW12}"
    assert lines[-1] == "Undo: python manage.py node rollout REVISION --back"
    assert len(lines) == len(set(lines))


def test_the_command_fails_in_plain_words(running: Fleet) -> None:
    running.refusals[NEW12] = "spiders/shop.py:3: \x1b[31mSyntaxError"
    with pytest.raises(CommandError, match=r"alpha refused: spiders/shop\.py:3") as raised:
        command(NEW)
    assert raised.value.returncode == 1


def test_the_command_takes_a_canary(
    running: Fleet, run_pages: Callable[..., None], orm: str
) -> None:
    run_pages()
    lines = command(NEW, "--canary", "beta", "--pages", "3").splitlines()
    told = lines.index("beta: live")
    alpha = [(at, line) for at, line in enumerate(lines) if line.startswith("alpha: ")]
    assert {line for at, line in alpha if at < told} == {"alpha: not told"}
    assert alpha[-1][1] == "alpha: live"


def test_status_announces_nothing(fleet: Fleet) -> None:
    assert command("--status").startswith("nothing has been announced yet\n")
    fleet.frontier.rollouts.announce(Rollout(NEW, "main", ("beta",)))
    fleet.tick()
    fleet.add("gamma", OLD12, follows="")
    head, columns, *rows = command("--status").splitlines()
    assert f"UTC: {NEW12} of main, announced to beta" in head
    assert columns.split() == ["node", "state", "code", "why"]
    assert [" ".join(row.split()) for row in rows] == [
        f"alpha not told {OLD12}",
        f"beta pulled {OLD12}",
        f"gamma not following {OLD12}",
    ]


def test_status_without_nodes(published: Frontier) -> None:
    assert command("--status").endswith("no node is running\n")


def test_bad_input_is_refused(
    fleet: Fleet, tmp_path: Path, settings_with: Callable[..., None]
) -> None:
    clone = Repository.bare(tmp_path / "remote.git").clone(tmp_path / "clone")
    settings_with(BASE_DIR=clone.path)
    for arguments, words in (
        ([], "name the revision to roll out, or ask for --status"),
        ([NEW, "--status"], "does not take a revision"),
        ([NEW, "--pages", "3"], "--pages requires --canary"),
        ([NEW, "--canary", "alpha", "--pages", "0"], "--pages 0 must be 1 or more"),
        ([NEW, "--timeout", "0"], "--timeout 0 must be more than 0"),
        ([NEW, "--timeout", "nan"], "--timeout nan must be more than 0"),
        ([NEW, "--canary", "alhpa"], "did you mean 'alpha'?"),
        (["no-such-revision"], "no revision 'no-such-revision' in"),
        (["--", "--all"], "no revision '--all' in"),
    ):
        with pytest.raises(CommandError) as raised:
            command(*arguments)
        assert words in str(raised.value)
        assert fleet.frontier.rollouts.current() is None


def test_ctrl_c_leaves_everything_as_it_stands(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(NodesView, "show", interrupt)
    out = StringIO()
    with pytest.raises(SystemExit) as raised:
        call_command("node", "rollout", NEW, "--canary", "alpha", stdout=out, stderr=out)
    assert raised.value.code == 130
    text = out.getvalue()
    assert f"stopped watching; {NEW12} is announced to alpha and to no other node" in text
    assert f"Go back: python manage.py node rollout {OLD12} --back" in text
    told = fleet.frontier.rollouts.of("alpha")
    assert told is not None
    assert (told.revision, told.nodes) == (NEW, ("alpha",))


def test_an_unreachable_redis_is_reported_in_plain_words(fleet: Fleet) -> None:
    with redis_at("redis://127.0.0.1:1/0"), pytest.raises(CommandError, match="cannot be reached"):
        command(NEW)


# -- revisions --


def test_revisions_are_resolved_in_the_checkout(
    tmp_path: Path, settings_with: Callable[..., None]
) -> None:
    clone = Repository.bare(tmp_path / "remote.git").clone(tmp_path / "clone")
    revision = clone.commit({"x": "x"})
    settings_with(BASE_DIR=clone.path)
    for text in (revision, revision[:8], "main", "origin/main", "HEAD"):
        assert full_revision(text) == revision
    assert full_revision("A" * 40) == "a" * 40  # nodes know more than this checkout
    with pytest.raises(ArgumentError, match=r"no revision 'mian' in .*git fetch there"):
        full_revision("mian")


@pytest.mark.forks
def test_without_a_checkout_only_whole_revisions_do(
    tmp_path: Path, settings_with: Callable[..., None]
) -> None:
    settings_with(BASE_DIR=tmp_path)
    assert full_revision(NEW) == NEW
    with pytest.raises(ArgumentError, match="is no git checkout; give all 40 hex digits"):
        full_revision(NEW12)


# -- output ---------


def test_on_a_terminal_a_table_is_kept_up_to_date() -> None:
    out = StringIO()
    console = Console(
        file=out, force_terminal=True, width=100, markup=False, _environ={"TERM": "xterm"}
    )
    alpha = NodeStatus("alpha", OLD12, Phase.CHECKING)
    with NodesView(console) as view:
        view.show([alpha], "3 of 5 pages")
        view.show([alpha._replace(version=NEW12, phase=Phase.REFUSED, why="[red]\x07 bad")], "")
    text = out.getvalue()
    for words in ("checking", "3 of 5 pages", "refused", "[red]\ufffd bad", "\x1b"):
        assert words in text


def test_notes_are_not_said_at_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    view = NodesView(Console(file=out))
    for number in range(10):
        view.show([], f"{number} of 10 pages")
    monkeypatch.setattr(command_module, "NOTE_EVERY", 0.0)
    view.show([], "10 of 10 pages")
    view.show([], "10 of 10 pages")
    assert out.getvalue() == "0 of 10 pages\n10 of 10 pages\n"
