"""Tree: the files of one revision, apart from the running code, and their import."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from crawlframe.code.checkout import DIGITS, Checkout, GitError
from crawlframe.code.source import INSTALLED, OURS
from crawlframe.conf import Settings
from crawlframe.errors import ArgumentError
from crawlframe.preview.scratch import scratch

EXPORT_SECONDS = 120.0  # seconds for the files of a revision to be written
KEPT = (*OURS, "__main__")  # they stay as this process has loaded them


@dataclass(frozen=True)
class Tree:
    """``name``: of the revision, for people. ``root``: the top of the checkout; ``copy``: where the
    files of the revision are, ``root`` itself for the work tree. ``commit``: 40 hex digits; "" for
    the work tree."""

    name: str
    root: Path
    copy: Path
    commit: str = ""

    def place(self, path: Path) -> Path:
        """The place of a path of the checkout in this revision; the path itself outside of it, or
        if the revision does not have it, as for a virtual environment."""
        real = path.resolve()
        if self.copy == self.root or not real.is_relative_to(self.root):
            return path
        found = self.copy / real.relative_to(self.root)
        return found if found.exists() else path

    def enter(self, project: Path, kept: Collection[str]) -> None:
        """Makes this process import the code of the revision. ``kept``: names of packages that stay
        as they are loaded. Raises ArgumentError if the revision lacks the project."""
        folder = self.place(project)
        if self.copy != self.root and not folder.is_relative_to(self.copy):
            raise ArgumentError(f"{self.name} has no {project.relative_to(self.root)}")
        os.chdir(folder)
        sys.path[:] = [str(self.place(Path(place or project))) for place in sys.path]
        for name, module in [*sys.modules.items()]:
            file = getattr(module, "__file__", None)
            if file and name.partition(".")[0] not in (*KEPT, *kept) and self._has(Path(file)):
                del sys.modules[name]

    def settings(self, settings: Settings) -> Settings:
        """The settings with the places of this revision."""
        scrapy = settings.scrapy and str(self.place(Path(settings.scrapy).absolute()))
        return replace(settings, scrapy=scrapy)

    def _has(self, file: Path) -> bool:
        """Whether a file is the authors' and of the checkout."""
        real = file.resolve()
        return real.is_relative_to(self.root) and not any(part in INSTALLED for part in real.parts)


def work_tree(project: Path, checkout: Checkout | None) -> Tree:
    """The files as they are now."""
    root = (checkout.root if checkout is not None else project).resolve()
    return Tree("the working tree", root, root)


@contextmanager
def exported(checkout: Checkout, commit: str, name: str) -> Iterator[Tree]:
    """Yields the files of a commit, in a temporary directory. Nothing of the repository changes,
    and no hook runs. Raises GitError."""
    with scratch() as place:
        copy = place / "tree"
        index = {"GIT_INDEX_FILE": str(place / "index")}
        checkout.git("read-tree", commit, timeout=EXPORT_SECONDS, env=index)
        words = ("checkout-index", "--all", f"--prefix={copy}{os.sep}")
        checkout.git(*words, timeout=EXPORT_SECONDS, env=index)
        if not copy.is_dir():
            raise GitError(f"{name} has no files")
        yield Tree(name, checkout.root.resolve(), copy, commit)


def resolved(checkout: Checkout, name: str) -> tuple[str, str]:
    """The commit that a branch, tag or revision names, and both for people. Raises
    ArgumentError."""
    commit = checkout.resolve(name)
    if not commit:
        raise ArgumentError(
            f"{name!r} is no branch, tag or commit of {checkout.root}; git fetch brings those of "
            "other machines"
        )
    short = commit[:DIGITS]
    return commit, short if commit.startswith(name) else f"{name} ({short})"
