"""Results: how figures of several rounds are written, and where they are kept."""

from __future__ import annotations

import json
import os
import platform
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

CHECKOUT = Path(__file__).resolve().parents[2]
PLACE = CHECKOUT / "build" / "bench" / "results"


class Spread(NamedTuple):
    """One figure over the rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        """Raises StatisticsError without values."""
        ordered = sorted(values)
        return cls(statistics.median(ordered), ordered[0], ordered[-1])

    def text(self, form: str = ".2f") -> str:
        """``"0.45 (0.44-0.47)"``, or ``"0.45"`` for a single round."""
        if self.low == self.high:
            return f"{self.median:{form}}"
        return f"{self.median:{form}} ({self.low:{form}}-{self.high:{form}})"


def machine() -> dict[str, Any]:
    """The environment that the figures depend on."""
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": interpreter(),
    }


def interpreter() -> str:
    """The version and the build of the running interpreter: builds differ in speed, so its time for
    a plain loop is recorded too."""
    name = f"{platform.python_implementation()} {platform.python_version()}"
    best = min(_loop() for _ in range(5))
    return f"{name} ({platform.python_compiler()}; a loop of a million additions {best:.0f} ms)"


def _loop() -> float:
    """The time in CPU milliseconds."""
    started = time.process_time()
    total = 0
    for number in range(1_000_000):
        total += number
    return (time.process_time() - started) * 1000


def counted(count: int, noun: str) -> str:
    """``"3 rounds"``"""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def write(job: str, figures: dict[str, Any], output: Path | None = None) -> Path:
    """Keeps the figures of a job as JSON in ``output``, else under build/bench/results/."""
    path = output or PLACE / f"{job}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1) + "\n")
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
