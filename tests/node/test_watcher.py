"""Watching real directories, by notifications and by polling; and where the code of a node is."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils.autoreload import file_changed

from crawlframe.node.code import Code
from crawlframe.node.supervisor import watcher
from crawlframe.node.supervisor.watcher import TreeReloader, signature
from tests.conftest import CHECKOUT

AUTHOR = ("-c", "user.name=author", "-c", "user.email=author@example.invalid")


class Told:
    """Paths that a running watch reported since the last call."""

    def __init__(self, trees: list[Path], singles: list[Path], *, polling: bool) -> None:
        self._paths: list[Path] = []
        self.reloader = TreeReloader(trees, singles, polling=polling)
        file_changed.connect(self._on_change, sender=self.reloader)
        self._watch = threading.Thread(target=self.reloader.run_loop, daemon=True)
        self._watch.start()

    def _on_change(self, file_path: Path, **kwargs: Any) -> bool:
        self._paths.append(file_path)
        return True  # else Django ends this process

    def until(self, *paths: Path) -> set[Path]:
        """Waits for one of the paths; returns all that were reported."""
        deadline = time.monotonic() + 20
        while not any(path in self._paths for path in paths):
            assert time.monotonic() < deadline, f"{paths} were not told, only {self._paths}"
            time.sleep(0.01)
        told, self._paths = set(self._paths), []
        return told

    def settle(self, tree: Path) -> None:
        """Waits until earlier changes are reported, and watching has begun."""
        number = 0
        deadline = time.monotonic() + 20
        while not self._paths:
            assert time.monotonic() < deadline
            (tree / f"settle{number}.txt").touch()
            number += 1
            time.sleep(0.05)
        last = tree / "settled.txt"
        last.touch()
        self.until(last)

    def end(self) -> None:
        self.reloader.stop()
        self._watch.join(20)
        file_changed.disconnect(self._on_change, sender=self.reloader)
        assert not self._watch.is_alive()


Watching = Callable[[list[Path], list[Path]], Told]


@pytest.fixture(params=[False, True], ids=["kernel", "polling"])
def watching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watching]:
    """``watching(trees, single files)``: a running watch."""
    monkeypatch.setattr(watcher, "POLL_MS", 20)
    monkeypatch.setattr(watcher, "SCAN_EVERY", 0.2)
    running: list[Told] = []

    def watch(trees: list[Path], singles: list[Path]) -> Told:
        told = Told(trees, singles, polling=request.param)
        running.append(told)
        told.settle(trees[0])
        return told

    yield watch
    for told in running:
        told.end()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    for name in ("a.py", "inner/b.py", "c.txt"):
        (tree / name).write_text("before")
    return tree


def test_every_kind_of_change_is_reported(watching: Watching, tree: Path, tmp_path: Path) -> None:
    single = tmp_path / "single.csv"
    missing = tmp_path / "missing.csv"
    single.write_text("before")
    told = watching([tree], [single, missing])

    path = tree / "inner/b.py"
    path.write_text("after!")
    assert tree / "a.py" not in told.until(path)
    old = path.stat()
    path.write_text("AFTER!")
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns))
    told.until(path)
    (tree / "new/deep").mkdir(parents=True)
    (tree / "new/deep/d.py").touch()
    told.until(tree / "new", tree / "new/deep/d.py")
    (tree / "c.txt").unlink()
    told.until(tree / "c.txt")
    (tree / "inner").rename(tree / "renamed")
    told.until(tree / "renamed", tree / "renamed/b.py")

    # Single files, also one that comes; they are looked at.
    single.write_text("after!")
    assert not told.until(single) & {missing, tree / "a.py"}  # a change may be told twice
    missing.touch()
    told.until(missing)
    further = tmp_path / "further.csv"
    told.reloader.watch_also([further])
    told.until(further)  # as if it had changed: the loaded version is unknown
    further.touch()
    told.until(further)


def test_changes_behind_links_are_reported(watching: Watching, tree: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.txt").write_text(name)
    (tree / "link").symlink_to(tmp_path / "one")
    whole = tmp_path / "whole"
    whole.symlink_to(tmp_path / "one")
    told = watching([tree, whole], [])
    (tmp_path / "one/data.txt").write_text("ONE")
    told.until(tree / "link/data.txt")
    _swap(tree / "link", tmp_path / "two")
    told.until(tree / "link", tree / "link/data.txt")
    _swap(whole, tmp_path / "two")
    told.until(whole, whole / "data.txt")
    (tmp_path / "two/data.txt").write_text("TWO")
    told.until(whole / "data.txt")


def test_a_tree_may_go_and_come_back(watching: Watching, tree: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    told = watching([kept, tree], [])
    away = tree.rename(tmp_path / "away")
    told.until(tree)
    away.rename(tree)
    told.until(tree)
    (tree / "a.py").write_text("after!")
    told.until(tree / "a.py")


def test_a_declared_directory_is_reported(watching: Watching, tree: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "old.csv").write_text("before")
    told = watching([tree], [])
    told.reloader.watch_also([tables])
    told.until(tables / "old.csv")  # as if it had changed
    (tables / "new.csv").touch()
    told.until(tables / "new.csv")
    (tables / "old.csv").write_text("after!")
    told.until(tables / "old.csv")


def test_changes_of_other_files_are_not_reported(watching: Watching, tree: Path) -> None:
    told = watching([tree], [])
    (tree / "__pycache__").mkdir()
    for name in (".hidden.py", "a.py~", "#a.py#", "4913", "__pycache__/a.pyc", "b.pyc"):
        (tree / name).write_text("no code")
    last = tree / "z.py"
    last.touch()
    assert told.until(last) == {last}


def test_signature(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    assert signature(path) is None
    path.write_text("one")
    before = signature(path)
    assert before == signature(path)
    times = path.stat()
    path.write_text("two")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert signature(path) != before
    link = tmp_path / "link"
    link.symlink_to(path)
    assert signature(link) == signature(path)
    assert signature(tmp_path) == signature(tmp_path)


def test_installed_packages_are_reported_by_their_names(tmp_path: Path) -> None:
    packages = tmp_path / "site-packages"
    (packages / "one-1.0.dist-info").mkdir(parents=True)
    before = signature(packages)
    (packages / "~ne-1.0.dist-info").mkdir()  # pip, in the middle
    (packages / "__pycache__").mkdir()
    assert signature(packages) == before
    (packages / "one-1.0.dist-info").rename(packages / "one-1.1.dist-info")
    assert signature(packages) != before


# -- Code -----------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A git checkout with spiders, manage.py and requirements."""
    root = tmp_path / "project"
    (root / "spiders").mkdir(parents=True)
    for name in ("spiders/a.py", "manage.py", "requirements.txt", "rates.csv"):
        (root / name).write_text("before")
    _git(root, "init", "--quiet")
    _commit(root)
    return root


def test_the_framework_is_what_is_loaded(project: Path) -> None:
    code = Code(project / "spiders", project / "manage.py")
    assert code.trees[0] == project / "spiders"
    assert {CHECKOUT / "crawlframe", CHECKOUT / "crawlservice"} <= set(code.engine)
    assert {project / "manage.py", project / "requirements.txt"} <= set(code.singles)
    assert not any("site-packages" in path.parts for path in code.engine)
    assert not any(path.name == "django" for path in code.engine)


@pytest.mark.parametrize("name", ["manage.py", "requirements.txt"])
def test_changes_of_the_framework_and_of_spiders_are_distinguished(
    project: Path, name: str
) -> None:
    code = Code(project / "spiders", project / "manage.py")
    framework, spiders = code.engine_digest(), code.identity()
    for path in project.rglob("*.*"):
        path.touch()
    assert (code.engine_digest(), code.identity()) == (framework, spiders)
    (project / "spiders/a.py").write_text("after!")
    assert code.engine_digest() == framework
    assert code.identity()[0] != spiders[0]
    (project / "spiders/a.py").write_text("before")
    (project / name).write_text("after!")
    assert code.engine_digest() != framework
    assert code.identity() == spiders


def test_further_files_belong_to_the_spiders(project: Path) -> None:
    code = Code(project / "spiders", project / "manage.py")
    rates = [project / "rates.csv"]
    before = code.snapshot(rates)
    assert (before.digest, before.revision) == code.identity(rates)
    rates[0].write_text("after!")
    assert code.snapshot().digest == code.identity()[0]
    assert code.identity(rates) == (code.snapshot(rates).digest, before.revision)
    assert code.snapshot(rates).digest != before.digest
    assert code.snapshot(rates).version.startswith(f"{before.version}+")


def test_a_revision_whose_framework_does_not_run_is_not_named_alone(project: Path) -> None:
    code = Code(project / "spiders", project / "manage.py")
    first = code.snapshot().version
    assert len(first) == 12
    (project / "manage.py").write_text("after!")
    second = _commit(project)
    assert second != first
    assert code.snapshot().version.startswith(f"{second}+")
    assert Code(project / "spiders", project / "manage.py").snapshot().version == second


def test_git_at_work(project: Path, tmp_path: Path) -> None:
    code = Code(project / "spiders", project / "manage.py")
    assert not code.busy
    (project / ".git/index.lock").touch()
    assert code.busy
    (tmp_path / "elsewhere").mkdir()
    assert not Code(tmp_path / "elsewhere", project / "manage.py").busy


def _swap(link: Path, target: Path) -> None:
    fresh = link.with_name("fresh-link")
    fresh.symlink_to(target)
    fresh.replace(link)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *AUTHOR, *words], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _commit(root: Path) -> str:
    _git(root, "add", "--all")
    _git(root, "commit", "--quiet", "--message=change")
    return _git(root, "rev-parse", "HEAD")[:12]
