"""MissingTables: a framework that was refused because the database lacks its tables is tried again
after the database has been migrated."""

from __future__ import annotations


class MissingTables:
    """State of one supervisor. A mark identifies the applied migrations; the stewards of its
    masters report it when it changes."""

    def __init__(self) -> None:
        self._mark = self._tried = ""
        self._lacking = False

    def begin(self) -> None:
        """A new master starts to check the tables."""
        self._tried, self._lacking = self._mark, False

    def lack(self) -> bool:
        """The master ended because tables are missing. Returns whether to try again at once,
        because there was a migration in the meantime."""
        self._lacking = self._mark == self._tried
        return not self._lacking

    def learn(self, mark: str) -> bool:
        """Takes the current mark. Returns whether to try again the master that lacked tables."""
        again = self._lacking and mark != self._mark
        self._mark = mark
        self._lacking &= not again
        return again
