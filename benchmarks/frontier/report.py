"""Report: the figures of the frontier as tables and as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.frontier.memory import Memory
from benchmarks.frontier.rows import Row
from benchmarks.frontier.tables import QUEUE, Line
from benchmarks.lab import results
from benchmarks.lab.job import show
from benchmarks.lab.results import Spread

LEGEND = (
    "A request: claim, the question which of its links are known, completion with the new ones. "
    "us: microseconds of CPU; client: in the calls of the frontier. requests/s: of all workers "
    "together, on this machine; Redis could do: a million divided by its us. Median (least-most)."
)
RATE, GROWTH, SEEN, REQUEST = 15_000, 1.5, 10, 200  # the goals

FIGURES: dict[str, tuple[Callable[[Row], float], str]] = {
    "Redis us": (lambda row: row.redis_us, ".1f"),
    "client us": (lambda row: row.client_us, ".1f"),
    "requests/s": (lambda row: row.rate, ",.0f"),
    "Redis could do": (lambda row: row.most, ",.0f"),
}


TITLES = {
    "speed": "20 links, of which some are new",
    "lengths": "Requests queued",
    "hosts": "Hosts",
    "links": "Links of a page",
}


class Report(NamedTuple):
    """The measurements."""

    lines: Mapping[str, Sequence[Line]]  # by the names of TITLES
    memory: Sequence[Memory]
    server: str

    def show(self) -> None:
        """Prints the tables."""
        for name, lines in self.lines.items():
            rows = [
                [line.label, *(line.spread(of).text(form) for of, form in FIGURES.values())]
                for line in lines
            ]
            show(TITLES[name], FIGURES, rows)
        if self.memory:
            rows = [
                [f"{row.queued:,} queued", f"{row.request:.0f}", f"{row.seen:.1f}"]
                for row in self.memory
            ]
            show("Bytes of Redis", ("queued request", "of it fingerprint"), rows)
        print("\n".join([LEGEND, *self.goals(), f"{self.server}; {results.interpreter()}"]))

    def goals(self) -> list[str]:
        """The goals and the values reached, as far as they were measured."""
        goals = []
        if speed := self.lines.get("speed"):
            rate = speed[0].spread(lambda row: row.rate)
            most = speed[0].spread(lambda row: row.most)
            goals.append(
                f"goal {RATE:,} requests/s with 20 links: {rate.text(',.0f')} here, "
                f"{most.text(',.0f')} by the CPU of one Redis"
            )
        if len(lengths := self.lines.get("lengths", ())) > 1:
            growth = _growth(lengths[0], lengths[-1]).text()
            goals.append(
                f"goal below {GROWTH} times the cost: {growth} times from {lengths[0].label} to "
                f"{lengths[-1].label} queued"
            )
        for row in self.memory:
            if row.admitted >= QUEUE:
                goals.append(
                    f"goal {SEEN} bytes a seen URL, {REQUEST} a queued request: {row.seen:.1f} "
                    f"with {row.admitted:,} seen, {row.request:.0f} with {row.queued:,} queued"
                )
        return goals

    def figures(self) -> dict[str, Any]:
        """All figures, for JSON."""
        data: dict[str, Any] = {"redis": self.server}
        for name, lines in self.lines.items():
            data[name] = {line.label: [row._asdict() for row in line.rows] for line in lines}
        data["memory"] = [row._asdict() for row in self.memory]
        data["goals"] = self.goals()
        return data


def _growth(first: Line, last: Line) -> Spread:
    """The growth factor of Redis memory per request, by rounds."""
    rows = zip(first.rows, last.rows, strict=True)
    return Spread.of(late.redis_us / early.redis_us for early, late in rows)
