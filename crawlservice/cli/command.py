"""What all commands share: errors in plain words, and a database that is ready."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.db import DatabaseError
from redis import RedisError

from crawlframe.errors import CrawlframeError, TablesMissing
from crawlframe.frontier.client.wording import error_text
from crawlservice import environment
from crawlservice.connections.checks import missing_right
from crawlservice.connections.database import hint, prepare
from crawlservice.tasks.progress.outcomes import Unsuccessful

if TYPE_CHECKING:
    from rich.console import Console

WRITERS = (OutputWrapper.__module__, "rich.console")  # modules that write our output


class Command(BaseCommand):
    """A command of this project: reports bad input and missing servers in plain words, and makes
    sure that the database has its tables (unless ``needs_database`` is off)."""

    needs_database: bool = True
    requires_system_checks = ()

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
        except TablesMissing as error:
            _close_broken()
            raise CommandError(str(error), returncode=error.exit_code) from None
        except CrawlframeError as error:
            _close_broken()
            code = error.exit_code if isinstance(error, Unsuccessful) else 1
            raise CommandError(str(error), returncode=code) from None
        except RedisError as error:
            away = f"{error_text(error)}; try again when it is back"
            raise CommandError(missing_right(error) or away) from None
        except DatabaseError as error:
            reason = " ".join(str(error).split())
            raise CommandError(f"the database failed: {reason}{hint(reason)}") from None
        except BrokenPipeError:  # the reader, such as head, has seen enough
            _close_broken()
            return None
        except OSError as error:
            self._flush()  # reports it if the output failed
            *_, (frame, _line) = walk_tb(error.__traceback__)
            if frame.f_globals["__name__"] in WRITERS:  # more than its buffer holds
                raise _unwritable(error) from None
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

    @cached_property
    def console(self) -> Console:
        """Standard output for tables."""
        return self._console_on(self.stdout)

    @cached_property
    def error_console(self) -> Console:
        """Standard error, where the standard output is for data."""
        return self._console_on(self.stderr)

    def _console_on(self, wrapper: OutputWrapper) -> Console:
        from crawlservice.cli.console import console_on  # with rich, which a node does without

        return console_on(wrapper)


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
