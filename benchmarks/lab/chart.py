"""Chart: figures as an SVG that reads well on light and on dark pages. Matplotlib draws it, in an
environment of its own (build/bench/report), for nothing else needs it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.lab import venv

PROGRAM = Path(__file__).with_name("draw.py")
REQUIREMENTS = Path(__file__).with_name("requirements.txt")


class Bar(NamedTuple):
    """Horizontal. Its length is the sum of ``parts``, which are stacked in this order."""

    label: str
    parts: dict[str, float]
    low: float | None = None  # the spread, drawn as a whisker
    high: float | None = None


class Line(NamedTuple):
    label: str
    points: Sequence[tuple[float, float]]


class Panel(NamedTuple):
    """One diagram of a chart: bars or lines. ``x`` and ``y`` name the axes with their units."""

    title: str
    x: str
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()
    y: str = ""
    scale: Literal["linear", "log"] = "linear"  # of x


def draw(title: str, panels: Sequence[Panel], output: Path) -> None:
    """Writes the panels, one below the other. Raises RuntimeError when it cannot be drawn, for
    instance because matplotlib cannot be installed."""
    python = venv.environment("report", REQUIREMENTS)
    data = json.dumps({"title": title, "panels": [_told(panel) for panel in panels]})
    done = subprocess.run([python, PROGRAM, output], input=data, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"no chart: {done.stderr.strip()[-1000:]}")


def _told(panel: Panel) -> dict[str, object]:
    bars = [bar._asdict() for bar in panel.bars]
    lines = [line._asdict() for line in panel.lines]
    return {**panel._asdict(), "bars": bars, "lines": lines}
