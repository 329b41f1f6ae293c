"""The model's steps on the real parts: each is done with the real scripts on a real Redis, the real
ledger and the real renewal; and the result is read back in the model's terms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from redis import ConnectionError, Redis

from crawlframe.base import faults
from crawlframe.base.faults import Faults
from crawlframe.errors import EraChanged, Fenced
from crawlframe.frontier import Claimed, Completion, Frontier
from crawlframe.frontier.client.partitions import PartitionedStore
from crawlframe.frontier.tasks import mark_of
from crawlframe.request.request import Admission, make_rid, pack_admissions, unpack_admissions
from crawlframe.run.ledger import LedgerAway
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.cancellation import _end, _write
from crawlservice.ledger.recovery import is_whole, newest, renew
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Era, Event, Generation, Item, Page, Task
from tests.frontier.snapshot import Snapshot
from tests.protocol import model

MOVED = b"+"  # at the end of the record of a page that was redirected
LEASE = 1000.0  # seconds; only fate lets one end


@contextmanager
def fault(text: str) -> Iterator[None]:
    """Sets a fault as in the environment, for a while. "": none."""
    with pytest.MonkeyPatch.context() as patch:
        if text:
            patch.setattr(faults, "at", Faults(text).at)
        yield


class Halved(Frontier):
    """Completes a request with a long list in two calls: ``rest``: left by the first."""

    rest: list[Any] | None = None

    def push(self, completion: Completion) -> list[Any] | None:
        return super()._push_from(0, self._entry(0, completion), 0)

    def _push_from(self, partition: int, entry: list[Any], cursor: int) -> list[Any] | None:
        rest, self.rest = self.rest, None
        return rest or super()._push_from(partition, entry, cursor)


class RealNode:
    """A master and its one worker. ``told`` is everything that it knows, in the model's terms."""

    def __init__(self, number: int, redis: Redis) -> None:
        self.version = f"code {number}"
        self.lives: list[int] = []  # their real numbers
        self._redis = redis
        self.start()

    def start(self) -> None:
        """A fresh process."""
        self.told = model.Node(generation=len(self.lives))
        self.frontier = Halved(PartitionedStore(self._redis))
        self.sequence = 0
        self.rest: list[Any] | None = None
        self.held: Claimed

    def be(self, phase: str, **changes: Any) -> None:
        self.told = self.told._replace(phase=phase, **changes)

    @property
    def life(self) -> int:
        return self.lives[-1]


class Real:
    """One task of the model's pages, on an empty Redis and an empty database."""

    def __init__(self, redis: Redis) -> None:
        self.redis: Any = redis
        redis.flushall()
        for table in (Event, Item, Page, Task, Era, Generation):
            table.objects.all().delete()
        # While the robots.txt of a host is unknown, tasks that obey it get one request at a time.
        limits = {"delay": 0, "concurrency": 100, "page_limit": 0, "robots": False}
        self.task = Task.objects.create(spider="model", settings=limits, seeds=b"")
        self.requests = {page: self._admission(page) for page in model.PAGES}
        self.task.seeds = pack_admissions([self.requests[model.ROOT]])
        self.task.save()
        self.pages = {request.rid: page for page, request in self.requests.items()}
        self.nodes = [RealNode(number, redis) for number in range(2)]
        self.reader = Frontier(PartitionedStore(redis))
        self.key = self.reader.store.keys[0]
        self.copy: Snapshot | None = None

    def _admission(self, page: str) -> Admission:
        rid = make_rid(self.task.pk, page.encode())
        return Admission(rid, 0, "pages.example", 0, page.encode())

    # -- steps ------------------------------------------------------------------------------------

    def do(self, before: model.State, step: model.Step, broken_off: str) -> None:
        """``broken_off``: a fault that interrupts the first attempt, which is repeated; "":
        none."""
        do = getattr(self, f"_{step.name}")
        if step.actor == model.STEWARD:
            do(before, step.state, broken_off)
            return
        node = self.nodes[step.actor]
        told = node.told
        lost = step.state.budget.lost_answers < before.budget.lost_answers
        try:
            with fault(f"{step.name}.after:1:error" if lost else ""):
                do(node, step.state.nodes[step.actor], broken_off)
        except ConnectionError:
            assert lost
            node.told = told._replace(asked=told.asked or step.name == "claim")
        except (EraChanged, Fenced):
            node.be("begin", page="", follow_ups=(), asked=False)

    def _begin(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.frontier.eras.learn()
        assert node.frontier.eras.settled()
        node.lives.append(Generation.objects.create(node=node.version, pid=1).pk)
        node.frontier.leases.renew(node.life, LEASE)
        node.sequence = 0
        node.be("idle", generation=len(node.lives), era=node.frontier.store.call_log.eras[0])

    def _renew(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.frontier.leases.renew(node.life, LEASE)

    def _claim(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        claim = node.frontier.claim(node.life, node.sequence, 1)
        node.sequence += 1
        node.be("idle", asked=False)
        for request in claim.requests:
            node.held = request
            node.be("claimed", page=self.pages[request.rid])

    def _retake(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.frontier.retake(node.version, 100)

    def _release(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.frontier.release(node.life, [node.held.given_back()])
        node.be("idle", page="")

    def _redirect(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        request = self.requests[node.told.page]
        moved = node.held.given_back(("moved.example", request.record + MOVED))
        node.frontier.redirect(node.life, [moved])
        node.be("idle", page="")

    def _park(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.frontier.park(node.life, [node.held.given_back("no code")], node.version)
        node.be("idle", page="")

    def _fetch(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.be("fetched", follow_ups=after.follow_ups)

    def _commit(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        page = node.told.page
        request = self.requests[page]
        outcome = Outcome(request.rid, self.task.pk, request.host, request.record, 0, 0, url=page)
        outcome.results.items = [b"{}"]
        outcome.results.follow_ups = [self.requests[link] for link in node.told.follow_ups]
        for text in (broken_off, ""):
            with suppress(LedgerAway), fault(text):
                recorded = DjangoLedger().commit([outcome])
                break
        node.be("committed", follow_ups=self._names(recorded[request.rid].follow_ups))

    def _push(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.rest = node.frontier.push(self._completion(node))
        if node.rest is None:
            node.be("idle", page="", follow_ups=())
        else:
            node.be("pushed")

    def _complete(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.frontier.rest = node.rest if node.told.phase == "pushed" else None
        node.frontier.complete([self._completion(node)])
        node.be("idle", page="", follow_ups=())

    def _completion(self, node: RealNode) -> Completion:
        request = self.requests[node.told.page]
        links = [self.requests[link] for link in node.told.follow_ups]
        cancelled = node.told.page in self._read_database().cancelled
        return Completion(
            request.rid, self.task.pk, request.host, cancelled, links, cancelled=cancelled
        )

    def _finish(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        counts = self.reader.counts(self.task.pk)
        assert counts is not None
        for text in (broken_off, ""):
            with suppress(LedgerAway), fault(text):
                DjangoLedger().tasks.finish({self.task.pk: counts})
                break

    def _cancel(self, before: model.State, after: model.State, broken_off: str) -> None:
        Task.objects.update(state=Task.State.CANCELLING)

    def _sweep(self, before: model.State, after: model.State, broken_off: str) -> None:
        self._steward().cancel(self.task.pk)

    def _settle(self, before: model.State, after: model.State, broken_off: str) -> None:
        new = after.database.cancelled - before.database.cancelled
        if new:
            _write(self.task, [self.requests[page] for page in new])
        else:
            _end(self.task)

    def _kill(self, node: RealNode, after: model.Node, broken_off: str) -> None:
        node.start()

    def _close(self, before: model.State, after: model.State, broken_off: str) -> None:
        """The first half of a renewal. The process that began it dies."""
        with pytest.raises(ConnectionError), fault("era.after:1:error"):
            renew(self._steward())

    def _fill(self, before: model.State, after: model.State, broken_off: str) -> None:
        with suppress(ConnectionError), fault(broken_off):
            renew(self._steward())
        if not is_whole(self._steward()):
            renew(self._steward())

    def _replay(self, before: model.State, after: model.State, broken_off: str) -> None:
        ((number, generation),) = before.redis.leases - after.redis.leases
        self._steward().leases.replay(self.nodes[number].lives[generation - 1])

    def _resume(self, before: model.State, after: model.State, broken_off: str) -> None:
        self._steward().resume(self.task.pk)

    def _steward(self) -> Frontier:
        """The frontier of another process each time."""
        return Frontier(PartitionedStore(self.redis, follows=True))

    def _lapse(self, before: model.State, after: model.State, broken_off: str) -> None:
        for generation in self.redis.zrange(self.key("GENERATIONS"), 0, -1):
            self.redis.zadd(self.key("GENERATIONS"), {generation: 1})

    def _copy(self, before: model.State, after: model.State, broken_off: str) -> None:
        self.copy = Snapshot(self.redis)

    def _back(self, before: model.State, after: model.State, broken_off: str) -> None:
        assert self.copy is not None
        self.copy.back()

    def _empty(self, before: model.State, after: model.State, broken_off: str) -> None:
        self.redis.flushall()

    # -- results ----------------------------------------------------------------------------------

    def read(self) -> tuple[model.Redis, model.Database, tuple[model.Node, ...]]:
        """The state in the model's terms."""
        assert self.reader.audit() == []
        return self._read_redis(), self._read_database(), tuple(node.told for node in self.nodes)

    def _read_redis(self) -> model.Redis:
        pipe: Any = self.redis.pipeline()
        for name in ("REQ", "OWN", "TRIES", "CURSOR"):
            pipe.hgetall(self.key(name))
        pipe.hmget(self.key("TASK", self.task.pk), "na", "nf", "cancelled", "state")
        pipe.smembers(self.key("SEEN", f"{self.task.pk}:0"))
        pipe.smembers(self.key("FENCED"))
        call_logs = [node.frontier.store.call_log for node in self.nodes]
        for call_log in call_logs:
            pipe.get(self.key("CALL_LOG", call_log.client))
        requests, owners, tries, cursors, counts, seen, fenced, *kept = pipe.execute()
        places = {self.pages[rid]: own.decode().split("|")[0] for rid, own in owners.items()}
        era, state = self.reader.store.era_of(0)
        leases = self.reader.leases.left()
        return model.Redis(
            era=era,
            state=state if era else "doubted",
            ready=frozenset(self.pages[rid] for rid in requests.keys() - owners.keys()),
            held=frozenset(
                (page, *self._life(place.split(".")[0]))
                for page, place in places.items()
                if place != "p"
            ),
            parked=frozenset(page for page, place in places.items() if place == "p"),
            tried=frozenset(
                (self.pages[rid], number)
                for rid, text in tries.items()
                for number, node in enumerate(self.nodes)
                if mark_of(node.version) in text.decode()
            ),
            moved=frozenset(
                self.pages[rid] for rid, record in requests.items() if record.endswith(MOVED)
            ),
            na=int(counts[0] or 0),
            nf=int(counts[1] or 0),
            cancelled=int(counts[2] or 0),
            cancelling=counts[3] == b"cancelling",
            seen=frozenset(self._page_of(int(fingerprint)) for fingerprint in seen),
            cursors=frozenset(self.pages[rid] for rid in cursors),
            lacks=frozenset(
                number
                for number, (call_log, known) in enumerate(zip(call_logs, kept, strict=True))
                if call_log.answered(0) > int(known or 0)
            ),
            fenced=frozenset(self._life(generation) for generation in fenced),
            leases=frozenset(self._life(generation) for generation in leases),
            over=frozenset(self._life(number) for number, left in leases.items() if left < 0),
        )

    def _life(self, generation: Any) -> tuple[int, int]:
        """Node and generation, as the model counts them."""
        return next(
            (number, node.lives.index(int(generation)) + 1)
            for number, node in enumerate(self.nodes)
            if int(generation) in node.lives
        )

    def _page_of(self, fingerprint: int) -> str:
        half = fingerprint.to_bytes(8, "big", signed=True)
        return next(page for rid, page in self.pages.items() if rid.startswith(half))

    def _read_database(self) -> model.Database:
        rows = [
            (self.pages[rid.bytes], self._names(unpack_admissions(packed) if packed else []))
            for rid, packed in Page.objects.values_list("rid", "follow_ups")
        ]
        cancelled = Page.objects.filter(reason="cancelled").values_list("rid", flat=True)
        task = Task.objects.get()
        items = Item.objects.values_list("rid", flat=True)
        return model.Database(
            ledger=frozenset(rows),
            items=tuple(sorted(self.pages[rid.bytes] for rid in items)),
            # The event of a cancelled task is written when the last of its rows is.
            ends=Event.objects.count() + (task.unwritten is not None),
            era=newest(),
            cancelling=task.state in (Task.State.CANCELLING, Task.State.CANCELLED),
            cancelled=frozenset(self.pages[rid.bytes] for rid in cancelled),
            settled=task.unwritten is None,
        )

    def _names(self, admissions: list[Admission]) -> tuple[str, ...]:
        return tuple(self.pages[admission.rid] for admission in admissions)
