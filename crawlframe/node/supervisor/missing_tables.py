"""MissingTables: a framework that was refused because the database lacks its tables is tried again
when the database has been migrated."""

from __future__ import annotations


class MissingTables:
    """Of one supervisor. A mark stands for the migrations that are applied; the stewards of its
    masters tell it when it changes."""

    def __init__(self) -> None:
        self._mark = self._tried = ""
        self._lacking = False

    def begin(self) -> None:
        """A new master looks at them from now on."""
        self._tried, self._lacking = self._mark, False

    def lack(self) -> bool:
        """It ended because some are missing. Returns whether it must be tried again at once: there
        was a migration meanwhile."""
        self._lacking = self._mark == self._tried
        return not self._lacking

    def learn(self, mark: str) -> bool:
        """This is the mark now. Returns whether the master that lacked some must be tried again."""
        again = self._lacking and mark != self._mark
        self._mark = mark
        self._lacking &= not again
        return again
