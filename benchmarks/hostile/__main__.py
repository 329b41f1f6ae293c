"""``python -m benchmarks.hostile [--quick]``"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.hostile.callbacks import CALLBACKS, Held
from benchmarks.hostile.corpus import CORPUS, Hostile
from benchmarks.lab.job import keep, run, say, show

SIZES, QUICK = (64 << 10, 1 << 20, 30 << 20), (64 << 10, 1 << 20)  # bytes
PAGE_TIMEOUT = 60.0  # seconds for a page
MAX_HOLD = 1.0  # seconds that a callback may hold the event loop


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile",
        description="Gives pages that are made to hold up parsers to callbacks as spiders have "
        "them, and tells how long each keeps the event loop of a worker. About four minutes; ends "
        f"with 1 when a page does so for more than {MAX_HOLD:g} s.",
    )
    parser.add_argument("--quick", action="store_true", help="without the pages of 30 MB")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    return run("hostile", lambda work: measure(QUICK if options.quick else SIZES, options.output))


def measure(sizes: tuple[int, ...], output: Path | None) -> int:
    found = {}
    for page in CORPUS:
        say("hostile", page.name)
        found[page.name] = {size: held(page, size) for size in sizes}
    for size in sizes:
        rows = [[name, *map(_cell, results[size])] for name, results in found.items()]
        show(f"{_text(size)}: seconds of the event loop, and what the request ends with",
             CALLBACKS, rows)  # fmt: skip
    worst = {
        size: {name: max(row.seconds for row in results[size]) for name, results in found.items()}
        for size in sizes
    }
    figures = {
        "pages": [
            {"page": name, "size": size, **row._asdict()}
            for name, results in found.items()
            for size, rows in results.items()
            for row in rows
        ]
    }
    keep("hostile", figures, output)
    slow = [f"{name} ({_text(size)})" for size, values in worst.items()
            for name, value in values.items() if value > MAX_HOLD]  # fmt: skip
    say("hostile", f"longer than {MAX_HOLD:g} s: {', '.join(slow) or 'none'}")
    return 1 if slow else 0


def held(page: Hostile, size: int) -> list[Held]:
    """``callbacks.held`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.hostile.callbacks", page.name, str(size)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PAGE_TIMEOUT)
    except subprocess.TimeoutExpired:
        return [Held(name, PAGE_TIMEOUT, "ended") for name in CALLBACKS]
    if done.returncode:
        raise RuntimeError(f"{page.name}, {_text(size)}: {done.stderr.strip()[-500:]}")
    return [Held(*row) for row in json.loads(done.stdout)]


def _cell(row: Held) -> str:
    return f"{row.seconds:.2f} {row.outcome}"


def _text(size: int) -> str:
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


if __name__ == "__main__":
    sys.exit(main())
