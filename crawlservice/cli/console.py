"""The console on which commands print tables, with rich."""

from __future__ import annotations

from typing import TextIO

from django.core.management.base import OutputWrapper
from rich.console import Console

PIPE_WIDTH = 4096  # columns where no terminal sets a limit: nothing is folded there


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
