"""Installation: whether an installer has written all files of a package."""

from __future__ import annotations

import csv
from pathlib import Path


class Installation:
    """A distribution in ``folder``, a directory of installed packages, by its name. ``known``: it
    was complete when this object was made; one that was not, or that is not installed there (a
    checkout), is never waited for."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        self.known = not self.missing()

    def missing(self) -> str:
        """The first file that RECORD lists and that is absent or has another size; the directory
        of the metadata if there is not exactly one; "" if the installation is complete."""
        pattern = f"{self._name}-*.dist-info"
        found = [*self._folder.glob(pattern)]
        if len(found) != 1:
            return str(self._folder / pattern)
        record = found[0] / "RECORD"
        try:
            lines = record.read_text("utf-8").splitlines()
        except OSError:
            return str(record)
        # Not importlib.metadata, which leaves absent files out from Python 3.12 on.
        for name, *told in filter(None, csv.reader(lines)):
            path = self._folder / name
            # Bytecode may be deleted and written again; scripts are rewritten for the interpreter.
            if path.suffix == ".pyc" or ".." in path.parts:
                continue
            try:
                size = path.stat().st_size
            except OSError:
                return str(path)
            if told[1:] not in ([], [""], [str(size)]):
                return str(path)
        return ""
