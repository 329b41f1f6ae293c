"""Frontier: every verb that moves requests through Redis, each one script, safe to repeat.

docs/architecture.md describes the claim and complete protocol; the keys are in keys.py."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from crawlframe.conf import Settings
from crawlframe.errors import FrontierError
from crawlframe.frontier.client.batches import MAX_ENTRIES, by_weight, question_chunks
from crawlframe.frontier.client.connection import LONG_TIMEOUT, TIMEOUT, connect, explained, persist
from crawlframe.frontier.client.eras import Eras
from crawlframe.frontier.client.partitions import PartitionedStore, pack
from crawlframe.frontier.client.records import (
    NO_SIGNAL,
    Claim,
    Claimed,
    Completion,
    FreedSlot,
    GivenBack,
    TaskView,
    fingerprints,
    groups,
    kept_in,
    whole,
)
from crawlframe.frontier.client.rows import read_number, read_tries
from crawlframe.frontier.cluster.decisions import Decisions
from crawlframe.frontier.cluster.leases import Leases
from crawlframe.frontier.cluster.rollouts import Rollouts
from crawlframe.frontier.cluster.spiders import SpiderCatalogue
from crawlframe.frontier.cluster.trials import Trials
from crawlframe.frontier.hosts import Hosts
from crawlframe.frontier.permits import Permits
from crawlframe.frontier.proxies import Proxies
from crawlframe.frontier.renders import Renders
from crawlframe.frontier.reservations import Reservations
from crawlframe.frontier.tasks import StartQueue, TaskPins, Tasks, mark_of
from crawlframe.request.request import Admission

KNOWN, BLAMED, REFUSAL = ord("1"), 1, 2  # an answer of ``known``; penalties of ``release``
AUDIT_WALK = 200_000  # pending requests that an audit walks one by one


class Frontier(Tasks):
    """All requests of all tasks, over all partitions.

    Raises Fenced when a verb is refused because its generation was declared dead, and the client's
    redis.RedisError when Redis cannot be reached."""

    def __init__(self, store: PartitionedStore) -> None:
        super().__init__(store)
        self.leases = Leases(store)  # the lives of nodes
        self.eras = Eras(store)  # of the data
        self.hosts = Hosts(store)
        self.rollouts = Rollouts(store)  # the revisions that nodes should pull
        self.spiders = SpiderCatalogue(store)
        self.starts = StartQueue(store)
        self.pins = TaskPins(store)
        self.permits = Permits(store)
        self.proxies = Proxies(store)
        self.renders = Renders(store)
        self.reservations = Reservations(store)
        self.trials = Trials(store)
        self.decisions = Decisions(store)
        self._last_claim = (0, -1)  # generation and sequence number

    @classmethod
    def connect(cls, url: str, settings: Settings, *, follows: bool = False) -> Frontier:
        """A frontier on a new connection; never share it across a fork. ``follows``: it continues
        in the next era, which holders of requests must not. Raises FrontierError."""
        redis = connect(url, LONG_TIMEOUT if follows else TIMEOUT)
        store = PartitionedStore(redis, settings.key_prefix, settings.partitions, follows=follows)
        frontier = cls(store)
        with explained(url):
            persist(frontier._agree)
        return frontier

    def _agree(self) -> None:
        """Checks the number of partitions, and learns the era."""
        # Kept with the data: with another number, every host would be looked up elsewhere.
        name = f"{self.store.keys[0].prefix}:partitions"
        if not self.store.redis.exists(name):  # a read-only Redis can still be inspected
            self.store.redis.set(name, self.store.partitions, nx=True)
        written = self.store.redis.get(name) or str(self.store.partitions).encode()
        if not written.isdigit():
            raise FrontierError(
                f"the key {name} in Redis holds {written!r}, which is not a number; delete it"
            )
        if (kept := int(written)) != self.store.partitions:
            raise FrontierError(
                f"this frontier has {kept} partitions and CRAWLFRAME_PARTITIONS is "
                f"{self.store.partitions}; set it to {kept}, or use another CRAWLFRAME_KEY_PREFIX"
            )
        self.eras.learn()

    # -- claim and complete -----------------------------------------------------------------------

    def claim(
        self,
        generation: int,
        sequence: int,
        n: int,
        fetched: Sequence[FreedSlot] = (),
        rooms: Mapping[int, int] | None = None,
        prefers: bool = False,
    ) -> Claim:
        """Up to n requests for a generation, after freeing the host slots of the requests in
        ``fetched`` (at most MAX_ENTRIES); n may be 0 for that purpose alone. After an error, repeat
        it with the same ``sequence`` (which grows by one per claim): a batch whose answer was lost
        is returned again, whatever n is. ``rooms``: free slots of the tasks in one worker that this
        generation serves. ``prefers``: it takes part in affinity."""
        claim = Claim(-1, [], {})
        words = [word for task, room in (rooms or {}).items() for word in (str(task), room)]
        extra = pack(words), int(prefers)
        over = dict(self.store.split(fetched, lambda one: one.host))
        turns = [(sequence + turn) % self.store.partitions for turn in range(self.store.partitions)]
        if self.store.partitions > 1 and self._last_claim == (generation, sequence):
            # It is unknown which partition had answered: first ask all for the lost batch.
            for partition in turns:
                some = over.pop(partition, [])
                self._claim_from(partition, claim, generation, sequence, 0, some, *extra)
            if claim.requests:
                return claim
        self._last_claim = (generation, sequence)
        n = min(n, MAX_ENTRIES)
        for partition in turns:
            left = n - len(claim.requests)
            if left <= 0:
                claim.wait = 0  # not asked this time, and may have more
            if left > 0 or partition in over:
                some = over.get(partition, [])
                self._claim_from(partition, claim, generation, sequence, max(0, left), some, *extra)
        return claim

    def _claim_from(
        self,
        partition: int,
        claim: Claim,
        generation: int,
        sequence: int,
        n: int,
        fetched: Sequence[FreedSlot],
        *extra: bytes | int,
    ) -> None:
        over = pack([part for one in fetched for part in (one.rid, one.claim, *one.signal)])
        wait, states, batch, blamed, refused, homeless, spaced, unserved, routed = self.store.run(
            "claim", partition, generation, sequence, n, over, *extra
        )
        then = time.monotonic()
        claim.unserved.update(map(int, unserved))
        if batch or fetched:
            self.store.call_log.count(partition)
        if wait >= 0:
            claim.wait = wait if claim.wait < 0 else min(wait, claim.wait)
        for i in range(0, len(states), 4):
            task, state, cookies, pinned = states[i : i + 4]
            version = self.rows.read_row(
                "TASK", b"cookies", cookies, read_number, 0, int(task), partition
            )
            claim.tasks[int(task)] = TaskView(state.decode(errors="replace"), version, pinned == 1)
        kills = self._numbers_of("KILLS", blamed, partition)
        refusals = self._numbers_of("REFUSALS", refused, partition)
        lost, fields = set(homeless), iter(batch)
        proxies = dict(zip(routed[::2], map(int, routed[1::2]), strict=True))
        due = {rid: then + us / 1e6 for rid, us in zip(spaced[::2], spaced[1::2], strict=True)}
        for rid, lane, record, tries in zip(fields, fields, fields, fields, strict=True):
            task, _, host = lane.decode().split(":", 2)
            attempts, deliveries = 0, 0
            if tries:
                attempts, deliveries = self.rows.read_row(
                    "TRIES", rid, tries, read_tries, (0, 0), "", partition
                )
            kept = whole(record, host)
            more = sequence, kills.get(rid, 0), refusals.get(rid, 0), rid in lost, due.get(rid)
            whose = rid, int(task), host, attempts, deliveries, kept
            claim.requests.append(Claimed(*whose, *more, proxies.get(rid, 0)))

    def _numbers_of(self, name: str, flat: list[bytes], partition: int) -> dict[bytes, int]:
        """rid -> number, of a hash whose rows were read as {rid, number, ...}."""
        rows = iter(flat)
        return {
            rid: self.rows.read_row(name, rid, row, read_number, 0, "", partition)
            for rid, row in zip(rows, rows, strict=True)
        }

    def known(self, asked: list[tuple[int, list[Admission]]]) -> list[list[bool]]:
        """For each (task, admissions): whether each of them has been admitted before."""
        if self.store.partitions == 1:
            marks = self._known_in(0, asked)
            return [list(islice(marks, len(admissions))) for _, admissions in asked]
        places = [[self.store.partition_of(a.host) for a in admissions] for _, admissions in asked]
        parts: list[list[tuple[int, list[Admission]]]] = [[] for _ in self.store.keys]
        for (task, admissions), homes in zip(asked, places, strict=True):
            mine: dict[int, list[Admission]] = defaultdict(list)
            for admission, home in zip(admissions, homes, strict=True):
                mine[home].append(admission)
            for home, some in mine.items():
                parts[home].append((task, some))
        answers = [self._known_in(partition, part) for partition, part in enumerate(parts)]
        return [[next(answers[home]) for home in homes] for homes in places]

    def _known_in(self, partition: int, asked: list[tuple[int, list[Admission]]]) -> Iterator[bool]:
        """The results of one partition, in order."""
        marks = b""
        for part in question_chunks([(task, some) for task, some in asked if some]):
            questions = [
                (str(task), *fingerprints([admission.rid for admission in some]))
                for task, some in part
            ]
            marks += self.store.run("known", partition, pack(questions))
        return map(KNOWN.__eq__, marks)

    def pending(self, admissions: Iterable[Admission]) -> list[Admission]:
        """The admissions that were admitted and have neither finished nor failed yet."""
        found = []
        for partition, mine in self.store.split(admissions, lambda admission: admission.host):
            still = self._pending_in(partition, [admission.rid for admission in mine])
            found += [admission for admission, pending in zip(mine, still, strict=True) if pending]
        return found

    def _pending_in(self, partition: int, rids: list[bytes]) -> list[bool]:
        pipe = self.store.redis.pipeline(transaction=False)
        for rid in rids:
            pipe.hexists(self.store.keys[partition]("REQ"), rid)
        return [bool(exists) for exists in pipe.execute()]

    def complete(self, completions: list[Completion]) -> set[int]:
        """Removes requests from the frontier and adds their follow-ups; call it after the commit of
        their ledger rows, with the follow-ups that the ledger recorded.

        Returns the tasks that may have no requests left."""
        ended: set[int] = set()
        for partition, mine in self.store.split(completions, lambda completion: completion.host):
            if self.store.partitions > 1:
                self._send_abroad(partition, mine)
            entries = {c.rid: self._entry(partition, c) for c in mine}
            cursors = dict.fromkeys(entries, 0)
            while cursors:
                ready = [self._push_from(partition, entries[rid], cursors[rid]) for rid in cursors]
                cursors = {}
                for chunk in by_weight(entry for entry in ready if entry is not None):
                    packed = pack(
                        [(*head, groups(links), *signal) for *head, links, signal in chunk]
                    )
                    done, behind = self.store.run("complete", partition, packed)
                    ended.update(int(task) for task in done)
                    cursors.update(zip(behind[::2], behind[1::2], strict=True))
        if self.store.partitions > 1:
            return {task for task, c in self.counts_of(ended).items() if c and c.nr == 0}
        return ended

    def _send_abroad(self, partition: int, completions: list[Completion]) -> None:
        """Sends follow-ups of other partitions before their parents complete, so that the sum of
        all NR cannot reach 0 in between. A parent that is not pending has sent its own already."""
        abroad: dict[int, list[Admission]] = defaultdict(list)
        still = self._pending_in(partition, [completion.rid for completion in completions])
        for completion, pending in zip(completions, still, strict=True):
            if pending:
                abroad[completion.task] += [
                    f for f in completion.follow_ups if self.store.partition_of(f.host) != partition
                ]
        for task, admissions in abroad.items():
            self.admit(task, admissions)

    def _entry(self, partition: int, completion: Completion) -> list[Any]:
        """The completion as complete.lua reads it, with its follow-ups."""
        local = completion.follow_ups
        if self.store.partitions > 1:
            local = [f for f in local if self.store.partition_of(f.host) == partition]
        failed = 2 if completion.cancelled else 3 if completion.excluded else int(completion.failed)
        counted = [completion.duplicates, completion.items]
        counted += [completion.depth] * (completion.depth > 0)
        signal = completion.signal if completion.signal != NO_SIGNAL else ()
        return [completion.rid, str(completion.task), failed, counted, 0, local, signal]

    def _push_from(self, partition: int, entry: list[Any], cursor: int) -> list[Any] | None:
        """Pushes all but the last chunk of a long list of follow-ups. Returns the entry that
        completes the request, or None when it is no longer pending."""
        rid, task, follow_ups = entry[0], entry[1], entry[5]
        while len(follow_ups) - cursor > MAX_ENTRIES:
            chunk = follow_ups[cursor : cursor + MAX_ENTRIES]
            packed = pack(groups(chunk))
            cursor = self.store.run("push", partition, rid, task, cursor, packed, len(chunk))
            if cursor < 0:
                return None
        return [*entry[:4], cursor, follow_ups[cursor:], entry[6]] if cursor else entry

    def retry(self, generation: int, requests: Sequence[GivenBack]) -> int:
        """Held requests wait for another attempt, ``value`` milliseconds. Returns how many this
        generation held by these claims."""
        return self._give("retry", generation, requests, "1")

    def defer(self, generation: int, requests: Sequence[GivenBack]) -> int:
        """As ``retry``, for requests that were not attempted."""
        return self._give("retry", generation, requests, "0")

    def release(self, generation: int, requests: Sequence[GivenBack]) -> int:
        """Held requests go back, first in line. ``value`` BLAMED: for the death of a worker, which
        counts as a delivery and a kill; REFUSAL: its host refused it, and after some of these it
        goes to the end of its line; else 0. Returns as ``retry``."""
        return self._give("release", generation, requests)

    def may_move(self, host: str, target: str) -> bool:
        """Whether ``redirect`` may move a request from one host to another: requests are counted
        per partition, so they stay in theirs."""
        return self.store.partition_of(host) == self.store.partition_of(target)

    def redirect(self, generation: int, requests: Sequence[GivenBack]) -> int:
        """Held requests go to the head of the lane of another host, where they ``may_move``, and
        keep their tries. ``value``: that host, and the record for it. Returns as ``retry``."""
        entries = []
        for one in requests:
            target, record = one.value
            entries.append(one._replace(value=(target, kept_in(record, target))))
        return self._give("redirect", generation, entries)

    def park(self, generation: int, requests: Sequence[GivenBack], version: str = "") -> int:
        """Held requests are set aside, for the reason in ``value``, until ``unpark``, or until
        another code version takes them with ``retake``. ``version`` is the label of the code that
        could not run them; "" when the code is not to blame, so that only ``unpark`` brings them
        back. Returns as ``retry``."""
        return self._give("park", generation, requests, mark_of(version))

    def _give(self, verb: str, generation: int, requests: Sequence[GivenBack], *more: str) -> int:
        moved = 0
        for partition, mine in self.store.split_small(requests, lambda request: request.host):
            entries = [[one.rid, one.claim, one.value, *one.signal] for one in mine]
            moved += self.store.run(verb, partition, generation, pack(entries), *more)
        return moved

    def audit(self) -> list[str]:
        """Every discrepancy between counters and queues at this instant; empty if there is none."""
        answers = self.store.run_everywhere("audit", AUDIT_WALK)
        return [line.decode() for _, *lines in answers for line in lines]
