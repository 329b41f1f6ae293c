"""Checkout: git's state of a directory, without running anything of the repository."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import psutil
import pytest

from crawlframe.code import checkout as checkout_module
from crawlframe.code.checkout import Checkout, GitError, run_git, without_secrets
from tests.repository import Repository


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    place = tmp_path_factory.mktemp("repositories")
    clone = Repository.bare(place / "remote.git").clone(place / "clone")
    clone.commit({"spiders/shop.py": "one\n", ".gitignore": "*.log\n"})
    return clone


@pytest.fixture
def repository(committed: Repository, tmp_path: Path) -> Repository:
    """A copy to change."""
    return Repository(Path(shutil.copytree(committed.path, tmp_path / "clone")))


@pytest.fixture
def checkout(repository: Repository) -> Checkout:
    found = Checkout.around(repository.path / "spiders")
    assert found is not None
    return found


def test_a_checkout_is_found_from_below(repository: Repository, checkout: Checkout) -> None:
    assert checkout.root == repository.path
    assert checkout.lock == repository.path / ".git" / "index.lock"
    assert checkout.revision() == repository.head


@pytest.mark.forks
@pytest.mark.parametrize("name", ["outside", "missing"])
def test_no_checkout_around(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    assert Checkout.around(tmp_path / name) is None


def test_a_worktree_has_a_lock_of_its_own(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "--quiet", str(tmp_path / "other"))
    other = Checkout.around(tmp_path / "other")
    assert other is not None
    assert other.lock == repository.path / ".git" / "worktrees" / "other" / "index.lock"


def test_before_the_first_commit_there_is_no_revision(tmp_path: Path) -> None:
    clone = Repository.bare(tmp_path / "remote.git").clone(tmp_path / "clone")
    checkout = Checkout.around(clone.path)
    assert checkout is not None
    assert (checkout.revision(), checkout.resolve("main")) == ("", "")


def test_dirty_is_what_differs_from_the_commit(repository: Repository, checkout: Checkout) -> None:
    spiders = [repository.path / "spiders"]
    assert not checkout.dirty(spiders)
    repository.write({"spiders/run.log": "ignored", "notes.txt": "elsewhere"})
    assert not checkout.dirty(spiders)
    assert not checkout.dirty([repository.path.parent])
    assert checkout.changes() == ["notes.txt"]
    repository.write({"spiders/new.py": "x"})
    assert checkout.dirty(spiders)
    repository.write({"spiders/new.py": None, "spiders/shop.py": "two\n"})
    assert checkout.dirty(spiders)
    assert sorted(checkout.changes()) == ["notes.txt", "spiders/shop.py"]


def test_names_of_files_come_as_they_are(repository: Repository, checkout: Checkout) -> None:
    repository.write({'a "b" ä\n.py': "x"})
    assert checkout.changes() == ['a "b" ä\n.py']


def test_revisions_are_resolved(repository: Repository, checkout: Checkout) -> None:
    head = repository.head
    repository.git("tag", "-a", "-m", "x", "v1")
    for name in (head, head[:10], "v1", "HEAD", "origin/main"):
        assert checkout.resolve(name) == head
    for name in ("v2", "0" * 40, "-h", "--all", "", "HEAD:spiders"):
        assert checkout.resolve(name) == ""


def test_what_came_before_is_contained(repository: Repository, checkout: Checkout) -> None:
    old = repository.head
    new = repository.commit({"x": "1"})
    assert checkout.contains(new, old)
    assert checkout.contains(new, new)
    assert not checkout.contains(old, new)
    with pytest.raises(GitError):
        checkout.contains(old, "0" * 40)


def test_the_lock_tells_that_git_is_at_work(checkout: Checkout) -> None:
    assert not checkout.busy
    checkout.lock.touch()
    assert checkout.busy


def test_nothing_of_the_repository_runs(repository: Repository, checkout: Checkout) -> None:
    ran = repository.path.parent / "ran"
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        file = repository.path / ".git" / "hooks" / hook
        file.write_text(f"#!/bin/sh\necho {hook} >> {ran}\n")
        file.chmod(0o755)
    monitor = repository.path / "monitor"
    monitor.write_text(f"#!/bin/sh\necho monitor >> {ran}\n")
    monitor.chmod(0o755)
    repository.git("config", "core.fsmonitor", str(monitor))
    repository.git("status")
    assert ran.exists()  # git alone does run them
    ran.unlink()
    checkout.changes()
    checkout.git("checkout", "--quiet", "--detach")
    assert not ran.exists()


def test_the_environment_leads_nowhere_else(
    repository: Repository, checkout: Checkout, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = Repository.bare(tmp_path / "other.git")
    for name in ("GIT_DIR", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(other.path))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert checkout.revision() == repository.head
    assert checkout.changes() == []


def test_a_git_that_takes_too_long_ends_with_its_children(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout_module, "END_SECONDS", 0.2)
    pid = tmp_path / "pid"
    repository.git("config", "alias.hang", f"!trap '' TERM; echo $$ > {pid}; sleep 1000")
    with pytest.raises(GitError, match=r"git hang took more than 0\.5 s"):
        run_git(repository.path, "hang", timeout=0.5)
    try:
        sleeping = psutil.Process(int(pid.read_text()))
        while sleeping.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.02)
    except psutil.NoSuchProcess:
        pass


def test_errors_are_gits_own_words(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GitError, match="git rev-parse: fatal: Needed a single revision"):
        run_git(repository.path, "rev-parse", "--verify", "nothing")
    with pytest.raises(GitError, match=r"No such file or directory: .*missing"):
        run_git(repository.path / "missing", "status")
    monkeypatch.setenv("PATH", str(repository.path))
    with pytest.raises(GitError, match="git is not installed"):
        run_git(repository.path, "status")


@pytest.mark.forks
def test_passwords_are_not_shown() -> None:
    text = "fatal: unable to access 'https://me:secret@example.com/x.git/': no"
    assert without_secrets(text) == "fatal: unable to access 'https://***@example.com/x.git/': no"
    with pytest.raises(GitError) as caught:
        run_git(Path.cwd(), "ls-remote", "https://me:secret@127.0.0.1:1/x.git")
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)
