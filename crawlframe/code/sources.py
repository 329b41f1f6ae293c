"""SpiderSource: where spiders come from besides the modules of the spiders package."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from crawlframe.spider.spider import Spider

Result = TypeVar("Result")


class Finder(Protocol):
    """The loader for a source's spiders; the registry is one."""

    @property
    def directory(self) -> Path:
        """The directory of the spiders package."""

    def own(self, tree: Path) -> None:
        """Declares that the modules below a directory are the author's: they are compiled from the
        files on disk now, and belong to the code that is watched."""

    def read(self, path: Path) -> bytes:
        """The contents of a file that belongs to the code. Raises OSError."""

    def attempt(self, name: str, path: Path, load: Callable[[], Result]) -> Result | None:
        """Returns the result of ``load``, within the time limit of an import. None when it raises,
        or may not be called because it killed a process before: ``name`` is broken then, and
        ``path`` is named if the error does not say where it was."""

    def refuse(self, name: str, problem: str) -> None:
        """Records that ``name`` does not load. ``problem`` starts with file and line."""


class SpiderSource(Protocol):
    """A kind of spiders that is loaded with each version of the code, and reloaded like modules.

    Its classes have a ``__module__`` that is the name under which they are refused when one of them
    breaks the contract. A class that is not in a module of this name says where it is in the class
    attribute ``__file__``."""

    def find(self, finder: Finder) -> Iterable[type[Spider]]:
        """Yields the spider classes that load. One that does not is passed to ``finder``, so that
        the others still load."""

    def files(self) -> Iterable[Path]:
        """The files and directories outside the spiders package that are watched, also missing
        ones. Called after ``find``."""
