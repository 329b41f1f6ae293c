"""New projects: what `startproject` makes."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from crawlframe import __version__
from crawlframe.code.checkout import Checkout, GitError, run_git
from crawlframe.errors import CrawlframeError

TEMPLATES = Path(__file__).parent.parent / "templates" / "project"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
# Names that git or packaging would change or leave out.
RENAMED = {"env": "env.example", "gitignore": ".gitignore"}


class NewProjectError(CrawlframeError):
    """The project cannot be made."""


def write_project(folder: Path, name: str) -> None:
    """Makes a project in ``folder``, which must be new or empty. Raises NewProjectError."""
    if not NAME.fullmatch(name):
        raise NewProjectError(
            f"{name!r} cannot be a project's name; use letters, digits, - and _, such as my-shop"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise NewProjectError(f"{folder} is not empty; choose another name, or name a folder")
        values = {"name": name, "version": __version__}
        for source in sorted(TEMPLATES.rglob("*.txt")):
            relative = source.relative_to(TEMPLATES).with_suffix("")
            path = folder / RENAMED.get(str(relative), relative)
            path.parent.mkdir(exist_ok=True)
            path.write_text(Template(source.read_text("utf-8")).substitute(values), "utf-8")
        (folder / "manage.py").chmod(0o755)
    except OSError as error:
        raise NewProjectError(f"{folder} cannot be written: {error}") from None


def commit_project(folder: Path) -> str:
    """Makes ``folder`` a git repository with a first commit. Returns what was not done and why, in
    a sentence; "" if all was done."""
    if around := Checkout.around(folder):
        return f"{folder.name} is part of the git repository {around.root}; nothing was committed"
    try:
        run_git(folder, "-c", "init.defaultBranch=main", "init", "--quiet")
    except GitError as error:
        return f"no git repository was made: {error}"
    try:
        run_git(folder, "add", "--all")
        # Without a name and an address, git would make them up from this machine's.
        words = ("commit", "--quiet", "--message", "A project with its first spider")
        run_git(folder, "-c", "user.useConfigOnly=true", *words)
    except GitError as error:
        if "user.email" not in str(error):
            return f"nothing was committed: {error}"
        return (
            "nothing was committed, because git does not know who you are: set user.name and "
            "user.email (git config --global), then run: git commit -m 'First spider'"
        )
    return ""
