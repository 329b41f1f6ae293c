"""Code: which code of a node the disk holds, with a real git."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlframe.code.source import SourceFinder
from crawlframe.node.code import Code
from tests.repository import Repository


def repository(path: Path) -> Repository:
    """A repository with everything in the directory committed."""
    path.mkdir(exist_ok=True)
    made = Repository(path)
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit({}, push=False)
    return made


@pytest.fixture
def spiders(tmp_path: Path) -> Path:
    package = tmp_path / "home" / "shops"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    return package


def test_a_checkout_that_comes_later_is_found(spiders: Path) -> None:
    code = Code(spiders, spiders.parent / "manage.py")
    digest, revision = code.identity()
    assert revision == ""
    head = repository(spiders).head
    assert code.identity() == (digest, head)
    assert code.snapshot().version == head[:12]


def test_a_link_may_lead_to_another_checkout(tmp_path: Path) -> None:
    heads = []
    for name in ("old", "new"):
        made = repository(tmp_path / name)
        heads.append(made.commit({"shop.py": f"{name} = 1\n"}, push=False))
    link = tmp_path / "shops"
    link.symlink_to(tmp_path / "old")
    code = Code(link, tmp_path / "manage.py")
    before = code.identity()
    link.unlink()
    link.symlink_to(tmp_path / "new")
    after = code.identity()
    assert [before[1], after[1]] == heads
    assert before[0] != after[0]


@pytest.fixture
def framework(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that this process has loaded; it holds the spiders, too."""
    top = tmp_path / "loadedtop"
    (top / "shops").mkdir(parents=True)
    for name in ("__init__.py", "words.py", "shops/__init__.py"):
        (top / name).write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("loadedtop.words")
    yield top
    for name in ("loadedtop.words", "loadedtop"):
        del sys.modules[name]
    # If a test before had it installed, it would count them as changed from now on.
    loaded = SourceFinder.install().loaded
    for path in [path for path in loaded if Path(path).is_relative_to(top)]:
        del loaded[path]


@pytest.mark.forks
def test_what_is_loaded_beside_the_spiders_is_the_frameworks(framework: Path) -> None:
    code = Code(framework / "shops", framework.parent / "manage.py")
    assert framework not in code.engine
    assert {framework / "words.py", framework / "__init__.py"} <= {*code.singles}
    before = code.engine_digest()
    (framework / "shops/new.py").write_text("x = 1\n")
    assert code.engine_digest() == before
    (framework / "words.py").write_text("x = 1\n")
    assert code.engine_digest() != before


@pytest.mark.forks
def test_what_others_have_loaded_is_the_frameworks_too(framework: Path, tmp_path: Path) -> None:
    code = Code(framework / "shops", framework.parent / "manage.py")
    (app := tmp_path / "app").mkdir()
    (single := tmp_path / "one.py").touch()
    before, known = code.engine_digest(), code.engine_paths
    assert code.extend([app, single, *map(Path, known), Path(known[0], "inner")]) == [app, single]
    assert sorted(code.engine_paths) == sorted([*known, str(app), str(single)])
    (app / "models.py").write_text("x = 1\n")
    assert code.engine_digest() != before


def test_no_revision_names_code_that_runs_in_another_framework(framework: Path) -> None:
    """The framework on the disk is committed, but this process runs the previous one."""
    author = repository(framework.parent)
    code = Code(framework / "shops", framework.parent / "manage.py")
    assert code.snapshot().version == author.head[:12]
    (framework / "words.py").write_text("x = 1\n")
    head = author.commit({}, push=False)
    assert code.snapshot().version.startswith(f"{head[:12]}+")
    assert code.version_on_disk() == head[:12]
