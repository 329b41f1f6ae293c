"""TaskLog: logs and printed lines of spiders, which the commit thread writes in batches."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TextIO, cast

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.secret import MASK, secret_texts, without_logins
from crawlframe.base.stats import OPENING, RUNNING
from crawlframe.run.ledger import ActivityLedger, LedgerAway, LedgerRefused, LogLine, TaskSpec

log = logging.getLogger(__name__)

MAX_HELD = 1000  # lines that wait to be written; older ones are dropped
MAX_TEXT = 4000  # characters of a line
MAX_URL = 2000
MAX_TASKS = 1000  # whose secrets are remembered
MAX_UNFINISHED = 100  # printed lines that have no end yet
_PLAIN = logging.Formatter()
OURS = ("crawlframe", "crawlservice", "django")  # loggers of the framework, not of spiders


class Running(NamedTuple):
    """The work that runs in this context: a request, or the opening of a task."""

    task: int
    rid: bytes
    url: str


def running() -> Running | None:
    """Returns the work of this context, or None."""
    now = RUNNING.get(None)
    if now is not None:
        return Running(now.task, now.rid, now.url)
    task = OPENING.get()
    return Running(task, b"", "") if task else None


class TaskLog(logging.Handler):
    """Takes the records of all loggers but ours while a spider runs, and printed lines. Used by all
    threads of a worker."""

    def __init__(self, worker: str = "") -> None:
        """``worker``: the node and the process, for each line."""
        super().__init__()
        self._worker = worker
        self._mutex = threading.Lock()
        self._lines: deque[LogLine] = deque()
        self._lost: Counter[int] = Counter()  # lines that were dropped, by task
        self._secrets: BoundedDict[int, tuple[str, ...]] = BoundedDict(MAX_TASKS)

    def learn(self, spec: TaskSpec) -> None:
        """Masks the secrets of this task from now on."""
        self._secrets[spec.task] = tuple(
            sorted(secret_texts(spec.arguments), key=len, reverse=True)
        )

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in OURS:
            return
        here = running()
        if here is None:
            here = Running(getattr(record, "task", 0), b"", "")
            if not here.task:
                return
        try:
            text = record.getMessage()
            before = " ".join(filter(None, (f"task {here.task}", here.url)))  # as SpiderLog adds it
            text = text.removeprefix(f"{before}: ")
            if record.exc_info and record.exc_info[0] is not None:
                text += "\n" + (self.formatter or _PLAIN).formatException(record.exc_info)
        except Exception:  # wrong arguments of a message must not fail the callback
            self.handleError(record)
            return
        self.add(here, record.levelno, record.name, text, record.created)

    def add(self, here: Running, level: int, logger: str, text: str, at: float) -> None:
        """Takes a line. ``at``: seconds since the epoch."""
        text, url = without_logins(text), here.url
        for secret in self._secrets.get(here.task, ()):  # first: a cut one would not be found
            text, url = text.replace(secret, MASK), url.replace(secret, MASK)
        url = url[:MAX_URL]
        if len(text) > MAX_TEXT:
            text = f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT:,} more characters)"
        with self._mutex:
            line = LogLine(here.task, at, level, logger, here.rid, url, text, self._worker)
            self._lines.append(line)
            if len(self._lines) > MAX_HELD:
                self._lost[self._lines.popleft().task] += 1

    def lose(self, lines: list[LogLine], lost: dict[int, int]) -> None:
        """Notes lines that could not be written."""
        with self._mutex:
            self._lost.update(line.task for line in lines)
            self._lost.update(lost)

    @property
    def waits(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._lines or self._lost)

    def take(self) -> tuple[list[LogLine], dict[int, int]]:
        """Returns the lines since the last call, and how many were dropped, by task."""
        with self._mutex:
            lines, self._lines = [*self._lines], deque()
            lost, self._lost = dict(self._lost), Counter()
        return lines, lost


class Printed:
    """A standard stream that also adds a spider's output to the log of its task. All other calls go
    to the stream."""

    def __init__(self, stream: TextIO, log: TaskLog, name: str, level: int) -> None:
        self._stream = stream
        self._log = log
        self._name = name
        self._level = level
        self._unfinished: BoundedDict[tuple[int, bytes, int], str] = BoundedDict(
            MAX_UNFINISHED, self._end
        )

    def write(self, text: str) -> int:
        written = self._stream.write(text)
        here = running()
        if here is not None:
            key = (here.task, here.rid, threading.get_ident())
            *lines, rest = (self._unfinished.pop(key, "") + text).split("\n")
            for line in lines:
                self._log.add(here, self._level, self._name, line, time.time())
            if rest:
                self._unfinished[key] = rest[: 2 * MAX_TEXT]  # a secret across MAX_TEXT stays whole
        return written

    def _end(self, key: tuple[int, bytes, int], text: str) -> None:
        """Logs a line without a line end."""
        task, rid, _ = key
        self._log.add(Running(task, rid, ""), self._level, self._name, text, time.time())

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class LogWriter:
    """``call`` runs a job in the thread that owns the ledger; ``worker``: see TaskLog."""

    def __init__(
        self, ledger: ActivityLedger, call: Callable[[Callable[[], None]], None], worker: str = ""
    ) -> None:
        self.lines = TaskLog(worker)
        self._ledger = ledger
        self._call = call
        self._writing = False

    def listen(self) -> None:
        """Starts to take this process's logs and prints."""
        logging.getLogger().addHandler(self.lines)
        sys.stdout = cast(TextIO, Printed(sys.stdout, self.lines, "stdout", logging.INFO))
        sys.stderr = cast(TextIO, Printed(sys.stderr, self.lines, "stderr", logging.WARNING))

    def tick(self) -> None:
        """Writes the lines. While an earlier write waits for the database, lines are held, and the
        oldest dropped if there are too many."""
        if not self._writing:
            self.flush()

    def flush(self) -> None:
        """Writes the lines, after the write in progress."""
        if self.lines.waits:
            self._writing = True
            self._call(self._write)

    def _write(self) -> None:
        """Writes lines at most once: a failure costs lines, which are counted."""
        lines, lost = self.lines.take()
        try:
            self._ledger.add_log(lines, lost)
        except (LedgerAway, LedgerRefused) as error:
            self.lines.lose(lines, lost)
            log.warning("%d lines of tasks' logs are dropped: %s", len(lines), error)
        finally:
            self._writing = False
