"""Defects: guards of the protocol, each with the change that breaks it. The simulation must find
every one; a defect that it does not find is a promise that no judge looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NamedTuple

from django.db import transaction
from redis import RedisError

from crawlframe.errors import Fenced, FrontierError
from crawlframe.frontier.client import scripts
from crawlframe.node import task_finisher
from crawlframe.node.master import claims, deferred_calls, generation, master
from crawlframe.node.worker.commit import committer
from crawlframe.run.ledger import LedgerAway
from crawlservice.ledger import ending
from crawlservice.ledger.reconcile import Reconciliation
from crawlservice.steward import nodes, task_chore


class InScript(NamedTuple):
    """A change of a Lua verb."""

    verb: str
    before: str
    after: str = ""


class InProgram(NamedTuple):
    """A change of an attribute of a module or class."""

    of: Any
    name: str
    make: Callable[[Any], Any]  # the former value -> the wrong one


Change = InScript | InProgram
HELD = "holder == generation and naming.claim_in(hold) == claim"
NEVER = lambda *arguments, **options: None  # noqa: E731
NO_STRAYS = InProgram(claims.Claims, "strays", lambda real: lambda self, *given: [])
ENDS_BLINDLY = InProgram(ending, "_may_end", lambda real: lambda task, missing, counts: True)
NO_ENDS: Any = lambda real: lambda ledger, frontier, tasks: set()  # noqa: E731

# Of two guards that make up for each other, both are broken at once.
DEFECTS: dict[str, Change | tuple[Change, ...]] = {
    # Scripts.
    "push at any cursor": InScript("push", "if cursor ~= tonumber(ARGV[3])", "if false"),
    "complete what is not pending": InScript("complete", "if records[i] and not", "if not"),
    "complete without freeing slots": InScript("complete", "free_slots(freed)\nsave", "save"),
    "complete leaves the request": InScript("complete", "call('HDEL', REQ, unpack(done))"),
    "complete counts errors twice": InScript(
        "complete", "if failed == 2", "if failed == 1 then count(task, 'nf', 1) end if failed == 2"
    ),
    "complete admits nothing": InScript("complete", "admit(task, follow_ups)"),
    "retry by anybody": InScript("retry", HELD, "holder and holder ~= 'd'"),
    "retry by an earlier claim": InScript("retry", HELD, "holder == generation"),
    "release by anybody": InScript("release", HELD, "holder"),
    "release by an earlier claim": InScript("release", HELD, "holder == generation"),
    "retry is forgotten": InScript(
        "retry", "call('ZADD', DELAYED", "local _ = ('ZADD' and DELAYED"
    ),
    "release is not queued": InScript("release", "enqueue(queues, true)"),
    "replay without a fence": InScript("replay", "call('SADD', FENCED, generation)"),
    "replay forgets requests": InScript("replay", "enqueue(queues, true)"),
    "replay keeps slots": InScript("replay", "free_slots(freed)"),
    "claim and lease of the dead": (
        InScript("claim", "if call('SISMEMBER', FENCED, generation) == 1", "if false"),
        InScript("lease", "if call('SISMEMBER', FENCED, ARGV[1]) == 1", "if false"),
    ),
    "claim without a list": InScript("claim", "call('SADD', INPROGRESS(generation), unpack(rids))"),
    "claim beyond the concurrency": InScript(
        "claim", "n = math.min(n, room)", "n = math.min(n, room + 1)"
    ),
    "claim without the delay": InScript(
        "claim", "terms.delay = math.max(now, host.next_time)", "terms.delay = now"
    ),
    "claim of an answer that was lost": (
        InScript("claim", "if mark == sequence then", "if false then"),
        NO_STRAYS,
    ),
    "a layer begins early": InScript(
        "complete", "if depth > 0 and layers.is_beyond", "if depth < 0 and layers.is_beyond"
    ),
    "slots without their host": InScript(
        "complete", "if call('EXISTS', LANES(host)) == 1 then show_host", "if false then show_host"
    ),
    "seen is always new": InScript(
        "complete",
        "fingerprint) == 0 then return false end",
        "fingerprint) == -1 then return false end",
    ),
    "permit beyond the concurrency": InScript(
        "permit", "seen.active + seen.beside >= terms.concurrency", "false"
    ),
    "permit without the delay": InScript("permit", "or 0), terms.at", "or 0), now"),
    "a delay from when a permit is given": InScript("permit", "space(HOST(host), terms.delay)"),
    # Programs.
    "complete before the commit is known": (
        InProgram(committer.Committer, "_commit", lambda real: _commits_nothing(real)),
        ENDS_BLINDLY,
    ),
    "results are dropped while the database is away": (
        InProgram(committer.Committer, "_write", lambda real: _write_once),
        NO_STRAYS,
    ),
    "rows and items apart": InProgram(
        transaction, "atomic", lambda real: lambda *a, **o: nullcontext()
    ),
    "the dead keep their requests": InProgram(master.Master, "_release", lambda real: NEVER),
    "calls are lost while Redis is away": InProgram(
        deferred_calls.DeferredCalls, "flush", lambda real: lambda self: self.clear()
    ),
    "nobody replays the dead": (
        InProgram(generation, "_replay", lambda real: NEVER),
        InProgram(nodes.DeadNodes, "_replay", lambda real: NEVER),
    ),
    "ends are not noticed": (
        InProgram(task_finisher, "end_tasks", NO_ENDS),
        InProgram(task_chore, "end_tasks", NO_ENDS),
    ),
    "an era that fills nothing": InProgram(Reconciliation, "run", lambda real: lambda self: self),
}


def _write_once(self: committer.Committer, batch: Any) -> None:
    try:
        self._settle(batch)
    except Fenced:
        self._on_fenced()
    except (LedgerAway, FrontierError, RedisError, OSError):
        pass  # the defect: the batch counts as settled


def _commits_nothing(real: Any) -> Any:
    from crawlservice.ledger.rows import recorded_now

    def commit(self: Any, outcomes: Any) -> Any:
        recorded = {outcome.rid: recorded_now(outcome) for outcome in outcomes}
        try:
            real(self, outcomes)
        except Exception:  # the defect: nobody hears of it
            pass
        return recorded

    return commit


@contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with this defect. Raises KeyError, and RuntimeError if the guard has moved."""
    found = DEFECTS[name]
    with ExitStack() as stack:
        for change in (found,) if isinstance(found, Change) else found:
            stack.enter_context(_made(change))
        yield


@contextmanager
def _made(defect: Change) -> Iterator[None]:
    if isinstance(defect, InProgram):
        real = getattr(defect.of, defect.name)
        setattr(defect.of, defect.name, defect.make(real))
        try:
            yield
        finally:
            setattr(defect.of, defect.name, real)
        return
    source = scripts.source
    text = source(defect.verb)
    if text.count(defect.before) < 1:
        raise RuntimeError(f"the script {defect.verb} has no {defect.before!r} any more")
    broken = text.replace(defect.before, defect.after)

    def with_defect(verb: str) -> str:
        return broken if verb == defect.verb else source(verb)

    scripts.source = with_defect  # type: ignore[assignment]
    try:
        yield
    finally:
        scripts.source = source
