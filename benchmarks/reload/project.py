"""Project: a separate checkout for one run: this framework, and a package of many spiders."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from benchmarks.lab.node import CHECKOUT

FRAMEWORK = ("crawlframe", "crawlservice", "manage.py", "requirements.txt", "requirements.lock")
TEMPLATES = Path(__file__).with_name("templates")
# The files that git writes last when it moves a branch.
MARKS = (".git/index", ".git/HEAD", ".git/logs/HEAD")
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Benchmark"), ("EMAIL", "benchmark@example.invalid"))
}
# Each change raises one of these numbers, so that the largest of them in a row identifies the last
# change to the code that wrote it.
EDITED = '"""The number of the last change by hand."""\n\nEDITED = {number}\n'
PULLED = '"""The number of the last change that came by git."""\n\nPULLED = {number}\n'
EDITION = "\nEDITION = {number}\n"


class Project:
    """``directory`` is made here, with its git history and, beside it, the repository it pulls
    from; it has ``modules`` modules of spiders, and "tree" crawls.

    Changes are numbered; each answers the time.monotonic() of its last write. Raises OSError and
    RuntimeError when git is missing or refuses."""

    def __init__(self, directory: Path, modules: int) -> None:
        self.directory = directory
        self._upstream = directory.with_name(f"{directory.name}-upstream")
        copy_framework(directory)
        self._front = directory / "crawlframe" / "__init__.py"
        self._front_text = self._front.read_text()
        self._front.write_text(self._front_text + EDITION.format(number=0))
        (directory / "spiders").mkdir()
        for name, text in spider_modules(modules).items():
            (directory / "spiders" / name).write_text(text)
        git(directory, "init", "-q", "-b", "main")
        git(directory, "add", ".")
        git(directory, "commit", "-q", "-m", "0")
        git(directory.parent, "clone", "-q", str(directory), str(self._upstream))
        git(directory, "remote", "add", "origin", str(self._upstream))

    def edit(self, number: int) -> float:
        """Changes a module as an editor saves it."""
        (self.directory / "spiders" / "edited.py").write_text(EDITED.format(number=number))
        return time.monotonic()

    def pull(self, number: int) -> float:
        """Changes a module by a commit and ``git pull``."""
        file = self._upstream / "spiders" / "pulled.py"
        file.write_text(PULLED.format(number=number))
        git(self._upstream, "commit", "-q", "-a", "-m", str(number))
        git(self.directory, "pull", "-q", "--ff-only", "origin", "main")
        written = [self.directory / name for name in (*MARKS, "spiders/pulled.py")]
        latest = max(path.stat().st_mtime for path in written)
        return latest - time.time() + time.monotonic()

    def change_framework(self, number: int) -> float:
        """Changes a module of the framework itself."""
        self._front.write_text(self._front_text + EDITION.format(number=number))
        return time.monotonic()


def copy_framework(directory: Path) -> None:
    """Copies this framework, as it is now, into a new directory."""
    directory.mkdir()
    for name in FRAMEWORK:
        source = CHECKOUT / name
        if source.is_dir():
            ignore = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, directory / name, ignore=ignore)
        else:
            shutil.copy(source, directory)


def spider_modules(count: int) -> dict[str, str]:
    """File name -> text of the package ``spiders``: ``count`` modules with a spider each, much as
    people write them, and their shared code."""
    template = (TEMPLATES / "shop.txt").read_text()
    texts = {
        "__init__.py": "",
        "edited.py": EDITED.format(number=0),
        "pulled.py": PULLED.format(number=0),
        "parsing.py": (TEMPLATES / "parsing.txt").read_text(),
        "tree.py": (TEMPLATES / "tree.txt").read_text(),
    }
    for number in range(count - 1):
        text = template.replace("@number@", str(number))
        texts[f"shop{number}.py"] = text.replace("@size@", str(20 + number % 30))
    return texts


def git(directory: Path, *words: str) -> str:
    """Runs git, and returns its output. Raises RuntimeError with git's own message."""
    done = subprocess.run(
        ["git", *words],
        cwd=directory,
        env={**os.environ, **IDENTITY},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
