"""Listing: rows that a command shows, as a table for people or as JSON for programs; and texts of
tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Any, Generic, TextIO, TypeVar

from django.core.management.base import OutputWrapper
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crawlservice.display import state_label
from crawlservice.models import Task

Row = TypeVar("Row")
GAP = 2  # columns of the terminal between two columns of a table
MIN_WIDE = 16  # columns of the terminal for text that is folded
PLACES = 3  # of a number with a fraction
STYLES = {"primary": "cyan", "good": "green", "warn": "yellow", "bad": "red", "muted": "dim"}
PIPE_WIDTH = 4096  # columns where no terminal sets a limit: nothing is folded there


@dataclass(frozen=True)
class Listing(Generic[Row]):
    """``name``: key of the list in JSON. ``columns``: value of a row by heading, the most important
    first; JSON has it under the heading, with _ for spaces. ``nothing``: sentence in place of an
    empty table. ``folded``: columns with long text. ``described``: a row in JSON, where that has
    more than the columns."""

    name: str
    columns: Mapping[str, Callable[[Row], Any]]
    nothing: str
    folded: Sequence[str] = ()
    described: Callable[[Row], Any] | None = None

    def as_json(self, rows: Sequence[Row]) -> dict[str, Any]:
        return {self.name: [*map(self.described or self._values, rows)]}

    def show(self, rows: Sequence[Row], console: Console) -> None:
        """Prints a table. Columns at the end are left out where the terminal is too narrow."""
        cells = {
            name: [_cell(name, read(row)) for row in rows] for name, read in self.columns.items()
        }
        left_out = []
        while len(cells) > 1 and self._width(cells) > console.width:
            left_out.append(cells.popitem()[0])
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in cells:
            first = self.columns[name](rows[0])
            right = isinstance(first, int | float) and not isinstance(first, bool)
            table.add_column(
                name,
                justify="right" if right and name != "id" else "left",
                no_wrap=name not in self.folded,
                overflow="fold",
            )
        for row in zip(*cells.values(), strict=True):
            table.add_row(*row)
        console.print(table)
        if left_out:
            told = ", ".join(reversed(left_out))
            console.print(Text(f"too narrow for: {told}; --json has all", "dim"))

    def _values(self, row: Row) -> dict[str, Any]:
        found = {name.replace(" ", "_"): read(row) for name, read in self.columns.items()}
        return {
            name: value.plain if isinstance(value, Text) else value for name, value in found.items()
        }

    def _width(self, cells: Mapping[str, Sequence[Text]]) -> int:
        """Columns of the terminal that the table needs."""
        width = -GAP
        for name, column in cells.items():
            widest = max(cell_len(name), *(cell_len(cell.plain) for cell in column))
            width += GAP + (min(MIN_WIDE, widest) if name in self.folded else widest)
        return width


def attributes(*names: str) -> dict[str, Callable[[Any], Any]]:
    """Columns that are attributes of a row; ``heading=attribute`` where the two differ."""
    pairs = [name.rpartition("=") for name in names]
    return {heading or name: attrgetter(name) for heading, _, name in pairs}


def _cell(name: str, value: Any) -> Text:
    return value if isinstance(value, Text) else Text(plain(_text(name, value)))


def _text(name: str, value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value) if name == "id" else f"{value:,}"
    if isinstance(value, float):
        return f"{value:.{PLACES}g}"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return str(value)


def plain(text: str) -> str:
    """``text`` without control characters."""
    return "".join(mark if mark.isprintable() or mark == "\n" else "\ufffd" for mark in text)


def status(task: Task, more: str = "") -> Text:
    """A task's state, or its outcome if it has ended, in the matching colour."""
    word, tone = state_label(task.status)
    return Text(f"{word}{more}", STYLES[tone])


def facts_table(facts: Iterable[tuple[str, str]], title: str | None = None) -> Table:
    """Two columns: names, and numbers or places."""
    table = Table(show_header=False, box=None, pad_edge=False, title=title, title_justify="left")
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts:
        table.add_row(name, plain(value))
    return table


class PipeConsole(Console):
    """Raises BrokenPipeError, where rich would exit."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        raise BrokenPipeError


def console_on(wrapper: OutputWrapper) -> Console:
    """Does not read text as markup: URLs have brackets."""
    out: TextIO = wrapper._out  # type: ignore[assignment]
    width = None if out.isatty() else PIPE_WIDTH
    return PipeConsole(file=out, width=width, markup=False, emoji=False, highlight=False)
