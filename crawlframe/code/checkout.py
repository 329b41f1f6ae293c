"""Checkout: the git work tree that holds a directory. Everything is read by calling git, and
nothing of the repository is run: no hooks, no file system monitor."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from crawlframe.errors import CrawlframeError

log = logging.getLogger(__name__)

DIGITS = 12  # characters of a revision that are shown
PLACES = ("index.lock", "index", "HEAD", "logs/HEAD")
ANSWER = 10.0  # seconds a local git command may take
END_SECONDS = 5.0  # seconds a git process that timed out has to remove its locks
SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.trustctime=true",  # a modification time that was set back is noticed
    "core.checkStat=default",
    "submodule.recurse=false",
    "protocol.ext.allow=never",
    "gc.auto=0",
    "maintenance.auto=false",
)
# These would lead to another repository than the directory's.
ELSEWHERE = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
)


class GitError(CrawlframeError):
    """Git failed, is not installed, or took too long."""


class Checkout:
    """``root`` is the top of the work tree; ``lock`` exists while git changes it; ``marks`` are
    files that change with every commit, switch or pull."""

    def __init__(self, root: Path, lock: Path, marks: Iterable[Path] = ()) -> None:
        self.root = root
        self.lock = lock
        self.marks = tuple(marks)

    @classmethod
    def around(cls, directory: Path) -> Checkout | None:
        """The checkout that holds a directory; None when there is none, or git is missing."""
        try:
            words = [word for place in PLACES for word in ("--git-path", place)]
            lines = run_git(directory, "rev-parse", "--show-toplevel", *words).splitlines()
            root, lock, *marks = lines
        except ValueError:
            return None
        except GitError as error:
            _warn_once(directory, str(error))
            return None
        places = [Path(os.path.normpath(directory.absolute() / p)) for p in (lock, *marks)]
        return cls(Path(root), places[0], places[1:])

    def git(
        self, *words: str, timeout: float = ANSWER, env: Mapping[str, str] | None = None
    ) -> str:
        """The output of ``git words…`` in this checkout. Raises GitError with git's own message."""
        return run_git(self.root, *words, timeout=timeout, env=env)

    def revision(self) -> str:
        """The commit that is checked out, 40 hex digits; "" before the first commit."""
        return self.resolve("HEAD")

    def resolve(self, name: str) -> str:
        """The commit, 40 hex digits, that a revision, branch or tag names; "" when there is none,
        or when a short revision is ambiguous."""
        if name.startswith("-"):  # git would take it for an option
            return ""
        try:
            return self.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}").strip()
        except GitError:
            return ""

    def contains(self, later: str, earlier: str) -> bool:
        """Whether ``earlier`` is ``later`` or one of its ancestors. Raises GitError."""
        try:
            self.git("merge-base", "--is-ancestor", earlier, later)
        except GitExit as error:
            if error.code == 1:
                return False
            raise
        return True

    def dirty(self, paths: Iterable[Path]) -> bool:
        """Whether files below these paths differ from the commit. New files count, ignored ones do
        not. Raises GitError."""
        top = self.root.resolve()
        inside = [str(path) for path in paths if path.resolve().is_relative_to(top)]
        return bool(inside) and bool(self.changes(*inside))

    def changes(self, *paths: str) -> list[str]:
        """The files, by their path from the top, that differ from the commit, all or only those
        below ``paths``. New files count, ignored ones do not. Raises GitError."""
        words = ("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames", "--")
        return [line[3:] for line in self.git(*words, *paths).split("\0") if line]

    @property
    def busy(self) -> bool:
        """Whether git is changing files now (or died while it did)."""
        return self.lock.exists()


@cache
def _warn_once(directory: Path, problem: str) -> None:
    """Logs a problem once. A directory in no repository is normal and is not logged."""
    if not re.search(r"not a git repository|is not installed", problem):
        log.warning("%s is treated as outside any git checkout: %s", directory, problem)


class GitExit(GitError):
    """Git ended with a non-zero exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def run_git(
    directory: Path,
    *words: str,
    timeout: float = ANSWER,
    env: Mapping[str, str] | None = None,
) -> str:
    """The output of git. ``timeout`` in seconds; ``env`` is added to ours. Raises GitError."""
    options = [word for option in SAFE for word in ("-c", option)]
    kept = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    # Reading must not take the lock that is watched; and there is no user to prompt.
    ours = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            ["git", *options, *words],
            cwd=directory,
            env={**kept, **ours, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # A group of its own: Ctrl-C does not stop it half way, and its children end with it.
            start_new_session=True,
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError) and error.filename == "git"
        raise GitError("git is not installed" if missing else f"git: {error}") from None
    with process:
        try:
            output, problem = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            raise GitError(f"git {words[0]} took more than {timeout:g} s") from None
    if process.returncode:
        text = without_secrets(problem.strip()) or f"exit code {process.returncode}"
        raise GitExit(f"git {words[0]}: {text}", process.returncode)
    return output


def without_secrets(text: str) -> str:
    """Text printed by git, with the names and passwords in its URLs removed."""
    return re.sub(r"(://)[^/@\s]+@", r"\1***@", text)


def _end(process: subprocess.Popen[str]) -> None:
    """Terminates gently first, so that git can remove its locks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.communicate(timeout=END_SECONDS)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
