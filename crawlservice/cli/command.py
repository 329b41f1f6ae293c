"""Base of all commands: errors in plain words, and a database that is ready."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from traceback import walk_tb
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError

from crawlframe.base.program import command
from crawlframe.errors import CrawlframeError
from crawlservice import environment
from crawlservice.cli.exit_code import ExitCode
from crawlservice.connections.database import hint, prepare

if TYPE_CHECKING:
    from rich.console import Console

    from crawlframe.response.response import Response
    from crawlservice.cli.listing import Listing
    from crawlservice.pages.page_viewer import ShownPage

Row = TypeVar("Row")
Advance = Callable[[float], None]
WRITERS = (OutputWrapper.__module__, "rich.console")  # modules that write our output
# Options of Django that all commands have: they work, and --help leaves them out.
COMMON = {
    "--version", "--verbosity", "--settings", "--pythonpath", "--traceback", "--no-color",
    "--force-color", "--skip-checks",
}  # fmt: skip


class ServiceCommand(BaseCommand):
    """A command of this project: reports bad input and missing servers in plain words, and makes
    sure that the database has its tables (unless ``needs_database`` is off)."""

    needs_database: bool = True
    requires_system_checks = ()
    suppressed_base_arguments = COMMON

    def execute(self, *args: Any, **options: Any) -> str | None:
        for warning in environment.warnings(os.environ):
            self.stderr.write(f"warning: {warning}")
        try:
            if self.needs_database:
                for warning in prepare():
                    self.stderr.write(f"warning: {warning}")
            told = super().execute(*args, **options)
            self._flush()
            return told
        except CrawlframeError as error:
            _close_broken()
            code = getattr(error, "exit_code", ExitCode.ERROR)
            raise CommandError(str(error), returncode=code) from None
        except BrokenPipeError:  # the reader, such as head, has seen enough
            _close_broken()
            return None
        except OSError as error:
            self._flush()  # reports it if the output failed
            *_, (frame, _line) = walk_tb(error.__traceback__)
            if frame.f_globals["__name__"] in WRITERS:  # more than its buffer holds
                raise _unwritable(error) from None
            raise
        except Exception as error:
            if told := _in_words(error):
                raise CommandError(told) from None
            raise

    def _flush(self) -> None:
        """Flushes now: a flush that fails when Python ends prints a traceback."""
        try:
            for out in (self.stdout, self.stderr):
                out.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _unwritable(error) from None

    def done(
        self, text: str, undo: str | None, *, by_hand: str = "", out: OutputWrapper | None = None
    ) -> None:
        """Says what was changed, on ``out`` or standard output. ``undo``: words of the command that
        takes it back; None: no command does. ``by_hand``: the way without a command."""
        way = by_hand or (undo and command(undo))
        told = f"Undo: {way}" if way else "This cannot be undone."
        (out or self.stdout).write(f"{text}\n{told}")

    def only_shows(self, options: dict[str, Any], change: str) -> bool:
        """Whether --dry-run was given. Then it says what would be changed, such as ``delete 3
        rows``."""
        if options["dry_run"]:
            self.stdout.write(f"Nothing was changed. Without --dry-run, this would {change}")
        return bool(options["dry_run"])

    def show_json(self, found: Any) -> None:
        self.stdout.write(json.dumps(found, cls=DjangoJSONEncoder, indent=2, ensure_ascii=False))

    def show_list(self, listing: Listing[Row], rows: Sequence[Row], as_json: bool) -> None:
        if as_json:
            self.show_json(listing.as_json(rows))
        elif rows:
            listing.show(rows, self.console)
        else:
            self.stdout.write(listing.nothing)

    def write_body(self, page: Response | ShownPage) -> None:
        """The bytes of a page; on a terminal its text, without control characters. Raises
        CommandError if a terminal cannot show it."""
        from crawlservice.cli.listing import plain  # with rich, which a node does without

        out: Any = self.stdout._out
        if not hasattr(out, "buffer"):
            self.stdout.write(page.text)
        elif out.isatty() and page.kind == "binary":
            raise CommandError("the body is not text; send it to a file with: > FILE")
        elif out.isatty():
            self.stdout.write(plain(page.text))
        else:
            out.buffer.write(page.body)
            out.buffer.flush()

    def asks(self, question: str) -> bool:
        """Whether a person at the terminal agrees. Raises CommandError if there is no terminal."""
        if not sys.stdin.isatty():
            raise CommandError(f"{question} There is no terminal to ask at; give --yes")
        self.stdout.write(f"{question} [y/N] ", ending="")
        self.stdout.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    @contextmanager
    def progress(self, what: str, total: float | None = None) -> Iterator[Advance]:
        """A bar with the time that remains, on a terminal's standard error. It yields a function
        that takes further progress, in units of ``total``; None: the total is unknown."""
        from rich.progress import Progress

        console = self.error_console
        with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
            task = bar.add_task(what, total=total)
            wrapper: Any = self.stdout
            before = wrapper._out
            if console.is_terminal and wrapper.isatty():
                wrapper._out = sys.stdout  # rich's, for now: it writes above the bar
            try:
                yield lambda number: bar.advance(task, number)
            finally:
                wrapper._out = before

    @cached_property
    def console(self) -> Console:
        """Standard output for tables."""
        return self._console_on(self.stdout)

    @cached_property
    def error_console(self) -> Console:
        """Standard error, where the standard output is for data."""
        return self._console_on(self.stderr)

    def _console_on(self, wrapper: OutputWrapper) -> Console:
        from crawlservice.cli.listing import console_on  # with rich, which a node does without

        return console_on(wrapper)


def _in_words(error: Exception) -> str:
    """Why a server did not do its part, without a stop; "" for an error of another kind."""
    from redis import RedisError  # slow to import, and many commands ask no Redis

    from crawlframe.frontier.client.wording import error_text
    from crawlservice.connections.redis_checks import missing_right

    if isinstance(error, RedisError):
        return missing_right(error) or f"{error_text(error)}; try again when it is back"
    if isinstance(error, DatabaseError):
        reason = " ".join(str(error).split())
        return f"the database failed: {reason}{hint(reason)}"
    return ""


def _unwritable(error: OSError) -> CommandError:
    _close_broken()
    return CommandError(f"standard output cannot be written: {error.strerror}")


def _close_broken() -> None:
    """Keeps Python's own flush of both streams, when it ends, from failing."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class JsonCommand(ServiceCommand):
    """A command that lists or shows, and takes no other option."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_json(parser)


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="JSON, for programs")


def add_dry_run(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only show the changes")


def add_yes(parser: ArgumentParser) -> None:
    add_dry_run(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
