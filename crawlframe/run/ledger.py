"""Ledger: the engine's interface to the database, which is the authoritative record.

crawlservice/ledger/store.py implements it with Django's models."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from crawlframe.aliases.rule import AliasRule
from crawlframe.errors import CrawlframeError
from crawlframe.frontier.client.records import Counts
from crawlframe.identity.identity import Papers
from crawlframe.pages.copy import Results
from crawlframe.pages.reparse import PageNumbers, Reparse, SourcePage
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.request.request import Admission
from crawlframe.response.stored_page import StoredPage
from crawlframe.revisit.visit import Visit
from crawlframe.robots.state import RobotsState
from crawlframe.run.outcome import Outcome
from crawlframe.spider.task_info import Summary

COOKIES, PROXIES = "cookies", "proxies"  # kinds of the state of a task
NO_ANSWER = 0  # in place of the status of a fetch that was not answered


class LedgerAway(CrawlframeError):
    """The database is unreachable or does not accept writes now; repeat the same call later."""


class LedgerRefused(CrawlframeError):
    """The database will never accept these rows."""


class TablesChanged(CrawlframeError):
    """The table of a model item has other columns than the model: it is migrated for other code."""


class FilesGone(CrawlframeError):
    """A file that these pages have saved was pruned before they could name it: they must be fetched
    again."""


class StoredRecipe(NamedTuple):
    """A recipe of the database, in the version that is current. ``text`` is JSON."""

    number: int
    text: str


class StoredProxy(NamedTuple):
    """A proxy of the pool, and the properties that choices go by."""

    proxy: ChosenProxy
    tier: int = 0
    country: str = ""
    tags: tuple[str, ...] = ()


class TaskSpec(NamedTuple):
    """The parts of a task that a worker needs. ``settings`` replace the spider's. ``recipe``: the
    recipe with the name of the spider, if the database has one; used where no code defines the
    spider. ``reparse``: set if it parses kept pages. ``watch``: the watch whose round it is, or 0.
    ``aliases``: the rules that held when it was submitted, if it uses them."""

    task: int
    spider: str
    arguments: dict[str, Any]
    priority: int
    settings: dict[str, Any] = {}
    recipe: StoredRecipe | None = None
    reparse: Reparse | None = None
    watch: int = 0
    aliases: tuple[AliasRule, ...] = ()


class Recorded(NamedTuple):
    """The ledger row that counts for a request: of this run, or of an earlier one."""

    failed: bool
    follow_ups: list[Admission]
    items: int
    cancelled: bool = False
    new: bool = False  # this run has just written it
    excluded: bool = False
    landing: tuple[bytes, str] | None = None  # rid and URL of the target of its redirects


class StartPart(NamedTuple):
    """A part of the requests of a task's ``start``, recorded before ``start`` is over. ``number``
    counts the parts of the task from 0. ``position`` counts the requests that ``start`` had yielded
    by the end of the part, including dropped ones; ``mark`` identifies the last of them.
    ``duplicates``: known requests that were dropped, since the start."""

    task: int
    rid: bytes  # of the root request
    number: int
    position: int
    mark: bytes
    duplicates: int
    follow_ups: list[Admission]


class RobotsTurn(NamedTuple):
    """The ledger's state of a robots.txt. ``now``: seconds since the epoch, by the database's
    clock, as in the state. ``mine``: it is due, and the caller must read it."""

    state: RobotsState
    now: float
    mine: bool = False


class LogLine(NamedTuple):
    """A line that a task's spider logged or printed. ``at``: seconds since the epoch. ``rid`` and
    ``url``: of the request, empty while a worker opens the task. ``worker``: the node and the
    process that wrote it."""

    task: int
    at: float
    level: int  # as in logging
    logger: str
    rid: bytes
    url: str
    text: str
    worker: str = ""


@dataclass(slots=True)
class HostStats:
    """Counts of one host's fetches in some seconds. ``pages``: ended requests, ``errors``: those in
    error. ``statuses`` counts fetches, repeated tries included. Answered fetches took ``fetch_ms``
    milliseconds together and brought ``bytes`` of bodies."""

    pages: int = 0
    errors: int = 0
    bytes: int = 0
    fetch_ms: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    last_status: int | None = None  # None: it did not answer
    last_reason: str = ""  # of the last problem

    @property
    def fetches(self) -> int:
        return sum(self.statuses.values())

    @property
    def answered(self) -> int:
        return self.fetches - self.statuses.get(NO_ANSWER, 0)


class TaskLedger(Protocol):
    """Tasks: the part that workers read, their state, and their end."""

    def spec(self, task: int) -> TaskSpec | None:
        """The task, its secrets as Secret objects; None when there is none. Raises ConfigError when
        this node cannot read its secrets."""

    def recipe_numbers(self, names: Collection[str]) -> dict[str, int]:
        """The current version of each of these recipes that exists."""

    def summary(self, task: int, counts: Counts) -> Summary | None:
        """The summary of a task that has only its last request left; None when there is no such
        task. ``counts`` are from the frontier."""

    def keep_state(self, states: Mapping[tuple[int, str], Mapping[str, str]]) -> None:
        """Writes state that requests of tasks need and no record has, by task and kind, in place of
        earlier values: cookies, and the proxy of each session by its place, "" after a block.
        Repeating it changes nothing."""

    def finish(self, tasks: Mapping[int, Counts]) -> set[int]:
        """Marks tasks as ended, each once, if the ledger has a row for each of its admitted
        requests, or if the task is cancelled and only rows of cancelled requests are missing.
        Returns which of them are ended now, by this call or another."""


class StartLedger(Protocol):
    """Parts of the requests of a task's ``start``, recorded before it is over."""

    def last(self, task: int) -> StartPart | None:
        """The last recorded part of the task's ``start``."""

    def add(self, part: StartPart) -> bool:
        """Writes a part. Returns False if another run of ``start`` has written one with this
        number, or has ended. Repeating it changes nothing."""

    def add_found(self, task: int, visit: Visit) -> None:
        """Writes the pages that the ``start`` of a round has found so far. Repeating it changes
        nothing."""


class PageLedger(Protocol):
    """Kept pages."""

    def latest(self, keys: Collection[bytes]) -> dict[bytes, StoredPage]:
        """The page that was kept last for each of these keys, if there is one."""

    def bodies(self, numbers: Collection[int]) -> dict[int, bytes]:
        """The bodies of these numbers, without missing and damaged ones."""

    def results(self, page: StoredPage) -> Results | None:
        """The results of a page's callback; None if they were not recorded, or are gone."""

    def to_parse(self, reparse: Reparse, after: int, most: int) -> PageNumbers:
        """The next kept pages after that number, out of at most ``most``."""

    def sources(self, numbers: Collection[int]) -> tuple[dict[int, SourcePage], set[int]]:
        """The kept pages of these numbers that are still there, and the numbers of pages that were
        not read, because the bodies of the others are large."""


class RobotsLedger(Protocol):
    """Files robots.txt of origins: each is read by one worker of the cluster at a time."""

    def turns(self, origins: Sequence[str], lease: float) -> list[RobotsTurn]:
        """The state of the robots.txt of each of these origins. If it is due and no worker reads
        it, it is the caller's turn for ``lease`` seconds, or until ``save``; an origin that is
        named twice has one turn."""

    def keep(self, origin: str, lease: float) -> None:
        """Makes the turn to read a robots.txt last for ``lease`` seconds from now."""

    def save(self, states: Mapping[str, RobotsState]) -> None:
        """Writes the state of the robots.txt of each of these origins, and ends the turns."""


class AccessLedger(Protocol):
    """Keys, credentials and proxies of this installation."""

    def identity(self) -> Papers:
        """The keys and credentials of this installation. Raises ConfigError when this node cannot
        read them."""

    def proxies(self) -> list[StoredProxy]:
        """The proxies of the pool that may be used. Raises ConfigError when this node cannot read
        their credentials."""


class ActivityLedger(Protocol):
    """Logs and statistics, which are written apart from the pages."""

    def add_host_stats(self, hosts: Mapping[str, HostStats]) -> None:
        """Adds to the statistics of hosts, in a transaction of its own that waits for no other one
        for long. After an error it is unknown whether they were added."""

    def add_log(self, lines: Sequence[LogLine], lost: Mapping[int, int]) -> None:
        """Adds to the logs of tasks, in a transaction of its own. ``lost``: how many lines were
        dropped before, by task. After an error it is unknown whether they were added."""


class Ledger(Protocol):
    """One connection to the database, used by one thread. All calls raise LedgerAway and
    LedgerRefused."""

    tasks: TaskLedger
    starts: StartLedger
    pages: PageLedger
    robots: RobotsLedger
    access: AccessLedger
    activity: ActivityLedger

    @property
    def waits(self) -> str:
        """Why its thread has waited for some time, such as for an answer; "" when it does not wait.
        May be read by any thread."""

    def commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
        """Writes ledger rows, items and follow-ups in one transaction; the first row of a rid wins.
        Returns the row that the ledger now has for each outcome. Repeating it changes nothing.
        Raises TablesChanged and FilesGone."""

    def recorded_requests(self, rids: Collection[bytes]) -> set[bytes]:
        """The requests out of these that have a row."""

    def urls_of(self, beginnings: Collection[bytes], task: int) -> dict[bytes, str]:
        """The URL of the page whose rid starts with each of these bytes, the first if there are
        several; without pages that have no row. ``task``: their task; 0: any."""

    def left(self) -> float | None:
        """Seconds until ``tick`` has something to do; None: nothing."""

    def tick(self) -> None:
        """Finishes work that must not stay open for long, such as a file of kept pages. Raises
        nothing."""

    def close(self) -> None:
        """Releases the connection."""
