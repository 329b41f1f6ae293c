"""Real git repositories for tests: a bare remote, and clones of it."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

# Nothing of the user's own configuration, and the same commits each time.
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "author",
    "GIT_AUTHOR_EMAIL": "author@example.com",
    "GIT_COMMITTER_NAME": "author",
    "GIT_COMMITTER_EMAIL": "author@example.com",
}


@dataclass(frozen=True)
class Repository:
    """A repository and its work tree, if it has one."""

    path: Path

    @classmethod
    def bare(cls, path: Path) -> Repository:
        return cls._made(path, "init", "--quiet", "--bare", "--initial-branch=main", str(path))

    def clone(self, path: Path, *options: str) -> Repository:
        return self._made(path, "clone", "--quiet", *options, str(self.path), str(path))

    @classmethod
    def _made(cls, path: Path, *words: str) -> Repository:
        path.parent.mkdir(parents=True, exist_ok=True)
        cls(path.parent).git(*words)
        return cls(path)

    def git(self, *words: str, given: str = "") -> str:
        """The output of git; ``given`` is its standard input."""
        done = subprocess.run(
            ["git", *words],
            cwd=self.path,
            env=ENVIRONMENT,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def write(self, files: dict[str, str | None]) -> None:
        """Path -> text; None deletes."""
        for name, text in files.items():
            file = self.path / name
            if text is None:
                file.unlink()
            else:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)

    def commit(self, files: dict[str, str | None], *, push: bool = True) -> str:
        """Writes and commits files, and pushes them. Returns the revision."""
        self.write(files)
        self.git("add", "--all", "--force", "--", *files)
        self.git("commit", "--quiet", "--allow-empty", "--message", "change")
        if push:
            self.git("push", "--quiet", "origin", "HEAD")
        return self.head

    def texts(self) -> dict[str, str]:
        """Every file of the work tree, and its contents."""
        files = [path for path in self.path.rglob("*") if path.is_file() or path.is_symlink()]
        return {
            str(path.relative_to(self.path)): path.read_text()
            for path in files
            if ".git" not in path.relative_to(self.path).parts
        }
