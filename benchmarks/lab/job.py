"""Job: the common parts of the benchmarks' commands."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.lab import results
from crawlframe.errors import CrawlframeError

WIDTH = 118  # of the tables


def run(name: str, measure: Callable[[Path], int]) -> int:
    """Calls ``measure`` with an empty directory, and returns its exit code. Its processes are
    stopped by its ``with`` blocks, also on Ctrl-C and SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix=f"{name}-") as work:
            return measure(Path(work))
    except (OSError, RuntimeError, CrawlframeError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def say(name: str, text: str) -> None:
    """Prints a line of progress."""
    print(f"{name}: {text}", file=sys.stderr, flush=True)


def show(
    title: str, columns: Iterable[str], rows: Iterable[Iterable[str]], caption: str = ""
) -> None:
    """Prints a table; the first cell of a row is its name."""
    table = Table(title=title, caption=caption or None, box=None, title_justify="left")
    table.pad_edge, table.caption_justify = False, "left"
    table.add_column("")
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, width=WIDTH).print(table, "")


def keep(name: str, figures: dict[str, Any], output: Path | None) -> None:
    """Writes the figures as JSON into ``output`` (by default under build/bench/results/), and says
    where."""
    path = results.write(name, {"job": name, "machine": results.machine(), **figures}, output)
    say(name, f"figures: {path}")
