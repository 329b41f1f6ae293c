"""Report: the figures of the frontier as tables, as JSON and as a chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from benchmarks.frontier.memory import Memory, Peer
from benchmarks.frontier.rows import Row
from benchmarks.frontier.tables import QUEUE, Line
from benchmarks.lab import chart, results
from benchmarks.lab.results import Spread

WIDTH = 110  # of the tables
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
    peers: Sequence[Peer]
    server: str

    def show(self) -> None:
        """Prints the tables."""
        console = Console(highlight=False, width=WIDTH)
        for name, lines in self.lines.items():
            console.print(_table(TITLES[name], lines), "")
        if self.memory or self.peers:
            console.print(self._memory(), "")
        if self.lines:
            console.print(LEGEND, "")
        for goal in self.goals():
            console.print(goal)
        console.print(f"{self.server}; {results.interpreter()}")

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
        """Everything, for JSON."""
        data: dict[str, Any] = {
            "job": "frontier",
            "machine": results.machine(),
            "redis": self.server,
        }
        for name, lines in self.lines.items():
            data[name] = {line.label: [row._asdict() for row in line.rows] for line in lines}
        data["memory"] = [row._asdict() for row in self.memory]
        data["scrapy-redis"] = [row._asdict() for row in self.peers]
        data["goals"] = self.goals()
        return data

    def draw(self, output: Path) -> None:
        """Writes the chart. Raises RuntimeError when it cannot be drawn."""
        panels = [
            _panel(
                "Cost of a request by length of the queue",
                "requests queued",
                self.lines.get("lengths", ()),
            ),
            _panel("by number of hosts", "hosts", self.lines.get("hosts", ())),
            _panel("by links of a page", "links", self.lines.get("links", ()), "linear"),
        ]
        bars = [
            chart.Bar(f"{row.queued:,} queued", {"bytes": row.request}) for row in self.memory
        ] + [chart.Bar(f"scrapy-redis {row.queue}", {"bytes": row.request}) for row in self.peers]
        if bars:
            panels.append(chart.Panel("Redis memory of a queued request", "bytes", bars))
        shown = [panel for panel in panels if panel.lines or panel.bars]
        if shown:
            chart.draw("The frontier on one Redis", shown, output)

    def _memory(self) -> Table:
        table = _plain(
            "Bytes of Redis", "queued request", "of it fingerprint", "Redis us", "client us"
        )
        for row in self.memory:
            table.add_row(f"{row.queued:,} queued", f"{row.request:.0f}", f"{row.seen:.1f}", "", "")
        for peer in self.peers:
            table.add_row(
                f"scrapy-redis {peer.queue}, {peer.queued:,}",
                f"{peer.request:.0f}",
                "",
                f"{peer.redis_us:.0f}",
                f"{peer.client_us:.0f}",
            )
        return table


def _growth(first: Line, last: Line) -> Spread:
    """The growth factor of Redis memory per request, by rounds."""
    rows = zip(first.rows, last.rows, strict=True)
    return Spread.of(late.redis_us / early.redis_us for early, late in rows)


def _table(title: str, lines: Sequence[Line]) -> Table:
    table = _plain(title, *FIGURES)
    for line in lines:
        cells = (line.spread(of).text(form) for of, form in FIGURES.values())
        table.add_row(line.label, *cells)
    return table


def _plain(title: str, *columns: str) -> Table:
    table = Table(title=title, box=None, title_justify="left", pad_edge=False)
    table.add_column("", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _panel(title: str, x: str, lines: Sequence[Line], scale: Any = "log") -> chart.Panel:
    drawn = []
    for name in ("Redis us", "client us") if lines else ():
        of = FIGURES[name][0]
        points = [(float(line.label.replace(",", "")), line.spread(of).median) for line in lines]
        drawn.append(chart.Line(name.partition(" ")[0], points))
    return chart.Panel(title, x, lines=drawn, y="CPU microseconds", scale=scale)
