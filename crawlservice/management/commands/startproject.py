"""startproject: makes a folder with manage.py, a first spider and its test, in git."""

from __future__ import annotations

import json
import re
import shutil
import sys
from argparse import ArgumentParser
from importlib.metadata import distributions
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.management.base import BaseCommand

from crawlframe import __version__
from crawlframe.base.program import command
from crawlframe.code.checkout import Checkout, GitError, run_git
from crawlframe.errors import CrawlframeError

TEMPLATES = Path(__file__).parents[2] / "templates"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")
# Names that git or packaging would change or leave out.
RENAMED = {
    "env": "env.example",
    "gitignore": ".gitignore",
    "github/workflows/test.yml": ".github/workflows/test.yml",
}
INSTALLERS = frozenset(("crawlframe", "pip", "setuptools", "uv", "wheel"))


class Command(BaseCommand):
    """Works outside of any project, so without our settings."""

    help = "Makes a project: a folder with manage.py, spiders, tests, and a git repository."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the project's name, such as my-shop")
        parser.add_argument(
            "folder", nargs="?", type=Path, help="new or empty; by default one of that name, here"
        )
        parser.add_argument(
            "--deploy", action="store_true",
            help="also write systemd units, a Dockerfile, files for Compose and Kubernetes, a lock "
            "of the versions installed here, and a workflow for GitHub that runs the tests",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"] or Path(options["name"])
        write_project(folder, options["name"], deploy=options["deploy"])
        self.stdout.write(f"made {folder}")
        if note := commit_project(folder):
            self.stderr.write(f"note: {note}")
        if not any(folder.glob("wheels/*.whl")):
            self.stderr.write(
                f"note: {folder}/wheels lacks the wheel of Crawlframe, and PyPI has another "
                "package of its name. Run `make wheel` in the checkout of Crawlframe, and copy "
                f"dist/crawlframe-{__version__}-py3-none-any.whl there, before you install"
            )
        self.stdout.write(f"Go there: cd {folder}")
        self.stdout.write(f"Try it:   {command('crawl quotes -o quotes.jsonl')}")
        self.stdout.write("Test it:  pip install -r requirements-dev.txt && python -m pytest")
        self.stdout.write(f"Run it:   {command('up')}")


class NewProjectError(CrawlframeError):
    """The project cannot be made."""


def write_project(folder: Path, name: str, *, deploy: bool = False) -> None:
    """Makes a project in ``folder``, which must be new or empty; with ``deploy``, also the files
    for its servers. Raises NewProjectError."""
    if not NAME.fullmatch(name):
        raise NewProjectError(
            f"{name!r} cannot be a project's name; use letters, digits, - and _, such as my-shop"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise NewProjectError(f"{folder} is not empty; choose another name, or name a folder")
        _write_templates("project", folder, name)
        (folder / "manage.py").chmod(0o755)
        if deploy:
            _write_templates("deploy", folder, name)
            (folder / "requirements.lock").write_text(_lock(), "utf-8")
        if (wheel := _own_wheel()) is not None:
            shutil.copy(wheel, folder / "wheels")
    except OSError as error:
        raise NewProjectError(f"{folder} cannot be written: {error}") from None


def _write_templates(group: str, folder: Path, name: str) -> None:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    values = {"name": name, "version": __version__, "python": python}
    root = TEMPLATES / group
    for source in sorted(root.rglob("*.txt")):
        relative = source.relative_to(root).with_suffix("")
        path = folder / RENAMED.get(str(relative), relative)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(source.read_text("utf-8")).substitute(values), "utf-8")


def _lock() -> str:
    """The versions of all packages that are installed in this environment, as requirements."""
    found = {package.name: package.version for package in distributions()}
    pins = sorted(
        (f"{name}=={version}" for name, version in found.items() if name not in INSTALLERS),
        key=str.lower,
    )
    first = "# The versions with which this project was made; write it again after an upgrade.\n"
    return first + "\n".join([f"crawlframe=={__version__}", *pins]) + "\n"


def _own_wheel() -> Path | None:
    """The wheel that Crawlframe was installed from, if it was a local file that still exists."""
    packages = distributions(name="crawlframe")
    text = next((one.read_text("direct_url.json") for one in packages), None)  # PEP 610
    url = urlsplit(json.loads(text)["url"]) if text else None
    path = Path(unquote(url.path)) if url is not None and url.scheme == "file" else None
    return path if path is not None and path.suffix == ".whl" and path.is_file() else None


def commit_project(folder: Path) -> str:
    """Makes ``folder`` a git repository with a first commit. Returns a sentence about a step that
    was not done, with the reason; "" if all were."""
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
