"""Entries: the contenders of the standard job, and how each was tuned."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.lab import venv

CONTENDERS = Path(__file__).with_name("contenders")


class Entry(NamedTuple):
    """One line of the table. ``folder`` is below contenders/; "" stands for Crawlframe."""

    name: str
    folder: str
    options: tuple[str, ...] = ()  # words for the contender's run.py
    spider: str = ""  # of Crawlframe
    in_flight: int = 64  # requests, per process
    scales: bool = False  # whether it may run with several processes
    processes: int = 1

    @property
    def label(self) -> str:
        """The name, with the number of processes where it may vary."""
        return f"{self.name} x{self.processes}" if self.scales else self.name

    def python(self) -> Path:
        """The Python with the packages of the contender: ours, if it names none; else installed
        on the first call. Raises OSError or RuntimeError, with pip's words, when that fails."""
        requirements = CONTENDERS / self.folder / "requirements.txt"
        if not requirements.exists():
            return Path(sys.executable)
        return venv.environment(self.folder, requirements)

    @property
    def program(self) -> Path:
        return CONTENDERS / self.folder / "run.py"


OURS = "crawlframe"
LIMIT = "bare"
OWN_SET = ("--own-set",)
ENTRIES = (
    Entry(OURS, "", spider="standard", scales=True),
    Entry("crawlframe-parsel", "", spider="standard_parsel"),
    Entry("scrapy", "scrapy", in_flight=128),
    Entry("scrapy-parsel", "scrapy", ("--parser", "parsel"), in_flight=128),
    Entry("scrapy-own-set", "scrapy", OWN_SET, in_flight=128),
    Entry("scrapy-redis", "scrapy_redis", in_flight=128, scales=True),
    Entry("scrapy-redis-own-set", "scrapy_redis", OWN_SET, in_flight=128, scales=True),
    Entry("crawlee", "crawlee"),
    Entry("crawlee-own-set", "crawlee", OWN_SET),
    Entry(LIMIT, "bare"),
)
NAMES = [entry.name for entry in ENTRIES]


def chosen(names: list[str], processes: list[int]) -> list[Entry]:
    """The entries of these names; scaling ones once for each number of processes."""
    return [
        entry._replace(processes=count)
        for entry in ENTRIES
        if entry.name in names
        for count in (processes if entry.scales else [1])
    ]


def in_turn(entries: list[Entry], round_number: int, rounds: int) -> list[Entry]:
    """The order of one round: each starts elsewhere, so that none is always first or last."""
    first = round_number * len(entries) // rounds
    return entries[first:] + entries[:first]
