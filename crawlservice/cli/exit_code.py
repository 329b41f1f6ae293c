"""ExitCode: the exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum

from crawlframe.errors import TablesMissing


class ExitCode(IntEnum):
    """docs/reference/commands.md says when each one comes."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    CANCELLED = 3
    NO_TABLES = TablesMissing.exit_code
    INTERRUPTED = 130
