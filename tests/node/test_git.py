"""Follower: a checkout goes to where the remote branch is, and nowhere else."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from crawlframe.code.checkout import Checkout
from crawlframe.node.supervisor import git
from crawlframe.node.supervisor.git import Follower, Pulled, PullRefused
from tests.repository import Repository

RAN = "ran"  # written by hooks and helpers beside the repositories when they run


@pytest.fixture
def remote(tmp_path: Path) -> Repository:
    return Repository.bare(tmp_path / "remote.git")


@pytest.fixture
def author(remote: Repository, tmp_path: Path) -> Repository:
    """The repository where commits are made; ``main`` has one."""
    clone = remote.clone(tmp_path / "author")
    clone.commit({"spiders/shop.py": "one\n", "old.txt": "old\n", ".gitignore": "*.log\n"})
    return clone


@pytest.fixture
def node(author: Repository, remote: Repository, tmp_path: Path) -> Repository:
    """The checkout of a node."""
    return remote.clone(tmp_path / "node")


@pytest.fixture
def follower(node: Repository) -> Follower:
    return follower_of(node)


def follower_of(node: Repository, branch: str = "main") -> Follower:
    checkout = Checkout.around(node.path)
    assert checkout is not None
    return Follower.of(checkout, branch)


def refused(pulled: Pulled, node: Repository, *words: str) -> None:
    """Checks that it was refused for these reasons, and that nothing changed since
    ``node.head``."""
    assert pulled.revision == node.head
    for word in words:
        assert word in pulled.problem
    assert "\n" not in pulled.problem


def test_a_pull_goes_to_the_tip(author: Repository, node: Repository, follower: Follower) -> None:
    assert follower.name == "origin/main"
    assert follower.pull() == Pulled(node.head, "")
    tip = author.commit({"spiders/shop.py": "two\n", "spiders/new.py": "new\n", "old.txt": None})
    assert follower.pull() == Pulled(tip, "")
    assert node.head == tip
    assert node.texts() == author.texts()
    assert node.git("status", "--porcelain", "--branch") == "## main...origin/main"


@pytest.mark.parametrize("digits", [40, 12, 8])
def test_a_pull_goes_to_a_revision_and_not_further(
    author: Repository, node: Repository, follower: Follower, digits: int
) -> None:
    middle = author.commit({"spiders/shop.py": "two\n"})
    author.commit({"spiders/shop.py": "three\n"})
    assert follower.pull(middle[:digits].upper()) == Pulled(middle, "")
    assert node.texts()["spiders/shop.py"] == "two\n"
    assert follower.pull(middle) == Pulled(middle, "")


def test_an_older_revision_needs_an_explicit_order(
    author: Repository, node: Repository, follower: Follower
) -> None:
    first = author.head
    second = author.commit({"spiders/shop.py": "two\n", "spiders/new.py": "new\n", "old.txt": None})
    assert follower.pull().revision == second
    refused(follower.pull(first), node, f"{first[:12]} is older", "rollout --back")
    assert node.head == second
    assert follower.pull(first, back=True) == Pulled(first, "")
    assert node.texts().keys() == {"spiders/shop.py", "old.txt", ".gitignore"}
    assert node.git("symbolic-ref", "--short", "HEAD") == "main"
    # A node that was behind goes forward: all end at the same revision.
    assert follower.pull(second, back=True) == Pulled(second, "")


def test_a_tip_that_was_left_is_not_pulled_again_until_the_branch_moves(
    author: Repository, node: Repository, follower: Follower
) -> None:
    first = node.head
    bad = author.commit({"a.txt": "bad"})
    assert follower.pull() == Pulled(bad, "")
    assert follower.pull(first, back=True) == Pulled(first, "")
    assert follower.pull() == Pulled(first, "")
    assert follower.pull(bad) == Pulled(bad, "")  # by name
    assert follower.pull(first, back=True) == Pulled(first, "")
    fixed = author.commit({"a.txt": "fixed"})
    assert follower.pull() == Pulled(fixed, "")
    assert follower.pull() == Pulled(fixed, "")


def test_what_is_not_on_the_branch_is_refused(
    author: Repository, node: Repository, follower: Follower
) -> None:
    author.git("switch", "--quiet", "-c", "other")
    elsewhere = author.commit({"spiders/shop.py": "elsewhere\n"})
    author.git("switch", "--quiet", "main")
    unpushed = author.commit({"spiders/shop.py": "two\n"}, push=False)
    node.git("fetch", "--quiet")  # it knows the other branch's commit
    before = node.texts()
    for revision in (elsewhere, elsewhere[:10], unpushed, "f" * 40):
        for back in (False, True):
            pulled = follower.pull(revision, back=back)
            refused(pulled, node, f"{revision} is not in origin/main", "push it there first")
    assert node.texts() == before


def test_only_hex_digits_are_a_revision(
    author: Repository, node: Repository, follower: Follower
) -> None:
    author.commit({"x": "x"})
    for revision in (
        "--hard", "-h", "main", "origin/main", "HEAD", "", "abc", "g" * 40, "HEAD~1", "a b",
    ):  # fmt: skip
        refused(follower.pull(revision), node, f"{revision!r} is not a revision")


def test_a_branch_or_tag_is_not_taken_for_a_revision(
    author: Repository, node: Repository, follower: Follower
) -> None:
    tip = author.commit({"x": "x"})
    node.git("fetch", "--quiet")
    node.git("branch", "decade", tip)
    node.git("tag", "c0ffee", tip)
    for name in ("decade", "c0ffee"):
        refused(follower.pull(name), node, f"{name} is not in origin/main")


def test_a_short_revision_that_fits_several_is_refused(
    author: Repository, node: Repository, follower: Follower
) -> None:
    author.git("switch", "--quiet", "--orphan", "many")
    author.git("fast-import", "--quiet", "--force", given=many_commits(1500))
    revisions = author.git("rev-list", "main").split()
    author.git("push", "--quiet", "--force", "origin", "main")
    prefixes = [revision[:4] for revision in revisions]
    twice = next(prefix for prefix in prefixes if prefixes.count(prefix) > 1)
    refused(follower.pull(twice), node, f"{twice} is ambiguous", "40 digits")


def many_commits(count: int) -> str:
    """Input of fast-import: a history for ``main``, always the same."""
    lines = []
    for number in range(count):
        lines += [
            "commit refs/heads/main",
            f"committer a <a@example.com> {number} +0000",
            "data 1",
            "x",
            "",
        ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("files", "named"),
    [
        ({"spiders/shop.py": "edited\n"}, "spiders/shop.py"),
        ({"spiders/mine.py": "mine\n"}, "spiders/mine.py"),
        ({"old.txt": None}, "old.txt"),
    ],
)
def test_local_changes_are_refused_and_kept(
    author: Repository,
    node: Repository,
    follower: Follower,
    files: dict[str, str | None],
    named: str,
) -> None:
    first = author.head
    author.commit({"spiders/shop.py": "two\n", "spiders/mine.py": "theirs\n", "old.txt": "new\n"})
    node.write(files)
    before = node.texts()
    refused(follower.pull(), node, f"local changes: {named}; commit and push them")
    refused(follower.pull(first, back=True), node, "local changes")
    assert node.texts() == before


def test_ignored_files_are_never_written_over(
    author: Repository, node: Repository, follower: Follower
) -> None:
    first = author.head
    second = author.commit({"run.log": "theirs\n", "deep/run.log": "theirs\n", "old.txt": None})
    node.write({"run.log": "mine\n"})
    refused(follower.pull(), node, "git ignores", "in the way of", ": run.log; move them")
    assert node.texts()["run.log"] == "mine\n"
    node.write({"run.log": None, "deep/more.log": "mine\n"})
    assert follower.pull() == Pulled(second, "")
    node.write({".git/info/exclude": "old.txt\n", "old.txt": "mine\n"})
    refused(follower.pull(first, back=True), node, ": old.txt; move them")
    assert node.texts()["old.txt"] == "mine\n"
    node.write({"old.txt": None})
    assert follower.pull(first, back=True) == Pulled(first, "")
    assert node.texts()["deep/more.log"] == "mine\n"


def test_directories_and_files_may_take_each_others_place(
    author: Repository, node: Repository, follower: Follower
) -> None:
    first = author.commit({"thing/a.txt": "a\n", "other": "o\n"})
    assert follower.pull().problem == ""
    author.git("rm", "-rq", "thing", "other")
    second = author.commit({"thing": "file\n", "other/b.txt": "b\n"})
    assert follower.pull() == Pulled(second, "")
    assert follower.pull(first, back=True) == Pulled(first, "")
    (node.path / "thing" / "mine.log").write_text("mine\n")
    refused(follower.pull(second), node, "thing/mine.log")


def test_commits_of_its_own_are_refused(
    author: Repository, node: Repository, follower: Follower
) -> None:
    first = author.head
    tip = author.commit({"spiders/shop.py": "two\n"})
    mine = node.commit({"mine.py": "mine\n"}, push=False)
    for pulled in (follower.pull(), follower.pull(tip), follower.pull(first, back=True)):
        refused(pulled, node, "commits that are not in origin/main", "git reset --keep origin/main")
    assert node.head == mine


def test_a_branch_that_was_rewritten_is_refused(
    author: Repository, node: Repository, follower: Follower
) -> None:
    author.commit({"spiders/shop.py": "two\n"})
    assert follower.pull().problem == ""
    author.git("reset", "--quiet", "--hard", "HEAD~1")
    new = author.commit({"spiders/shop.py": "other\n"}, push=False)
    author.git("push", "--quiet", "--force", "origin", "main")
    refused(follower.pull(new), node, "commits that are not in origin/main")


def test_two_sides_of_a_merge(author: Repository, node: Repository, follower: Follower) -> None:
    author.git("switch", "--quiet", "-c", "side")
    side = author.commit({"side": "s"}, push=False)
    author.git("switch", "--quiet", "main")
    main = author.commit({"main": "m"})
    assert follower.pull() == Pulled(main, "")
    author.git("merge", "--quiet", "--no-edit", "side")
    author.git("push", "--quiet", "origin", "main")
    for back in (False, True):
        refused(follower.pull(side, back=back), node, "two sides of a merge")
    assert follower.pull() == Pulled(author.head, "")


@pytest.mark.parametrize(
    ("words", "where"),
    [(("-c", "mine"), "on branch 'mine'"), (("--detach",), "on no branch")],
)
def test_a_checkout_on_another_branch_is_refused(
    author: Repository,
    node: Repository,
    follower: Follower,
    words: tuple[str, ...],
    where: str,
) -> None:
    author.commit({"x": "x"})
    node.git("switch", "--quiet", *words)
    refused(follower.pull(), node, where, "git switch main")
    with pytest.raises(PullRefused, match=where):
        follower.check()


def test_remote_and_branch_must_be_there(
    author: Repository, node: Repository, tmp_path: Path
) -> None:
    checkout = Checkout.around(node.path)
    assert checkout is not None
    for remote in ("upstream", str(author.path), "--upload-pack=touch x", "ext::sh -c true"):
        refused(Follower(checkout, remote, "main").pull(), node, "no remote", "it has origin")
    for branch in ("", "a..b", "x y", "main:other", "*"):
        refused(Follower(checkout, "origin", branch).pull(), node, "is not a valid branch name")
    node.git("switch", "--quiet", "-c", "new")
    refused(Follower(checkout, "origin", "new").pull(), node, "'origin' has no branch 'new'")
    node.git("remote", "remove", "origin")
    refused(Follower(checkout, "origin", "new").pull(), node, "it has none; git remote add")


def test_the_remote_is_the_one_configured_for_the_branch(
    author: Repository, node: Repository, tmp_path: Path
) -> None:
    node.git("remote", "rename", "origin", "upstream")
    assert follower_of(node).name == "upstream/main"
    tip = author.commit({"x": "x"})
    assert follower_of(node).pull() == Pulled(tip, "")
    node.git("config", "branch.main.remote", ".")  # the branch of the checkout itself
    with pytest.raises(PullRefused, match=r"has no remote '\.': it has upstream"):
        follower_of(node)


def test_a_checkout_without_a_commit(remote: Repository, tmp_path: Path) -> None:
    empty = remote.clone(tmp_path / "empty")
    with pytest.raises(PullRefused, match="has no commit yet"):
        follower_of(empty)


def test_without_git(node: Repository, follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(node.path))
    assert follower.pull() == Pulled("", "git is not installed")


def test_an_unreachable_remote_is_named_without_its_password(
    node: Repository, follower: Follower
) -> None:
    node.git("remote", "set-url", "origin", "http://me:secret@127.0.0.1:1/x.git")
    pulled = follower.pull()
    refused(pulled, node, "origin/main could not be fetched", "run git fetch origin in")
    assert "secret" not in pulled.problem


def test_a_fetch_has_a_limit(
    node: Repository, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "FETCH", 0.3)
    node.git("config", "remote.origin.uploadpack", "sleep 1000; true")
    refused(follower.pull(), node, "git fetch took more than 0.3 s")


def test_nothing_of_the_repository_runs(
    author: Repository, node: Repository, follower: Follower, tmp_path: Path
) -> None:
    ran = tmp_path / RAN
    hooks = node.path / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    names = ("post-merge", "reference-transaction", "post-checkout", "post-index-change")
    for name in names:
        (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {ran}\n")
        (hooks / name).chmod(0o755)
    first = author.head
    second = author.commit({"spiders/shop.py": "two\n"})
    assert follower.pull() == Pulled(second, "")
    assert follower.pull(first, back=True) == Pulled(first, "")
    assert not ran.exists()
    node.git("merge", "--quiet", "--ff-only", "origin/main")
    assert ran.exists()  # git alone does run them
    ran.unlink()
    node.git("config", "protocol.ext.allow", "always")
    node.git("remote", "set-url", "origin", f"ext::sh -c 'echo ext >> {ran}'")
    refused(follower.pull(), node, "transport 'ext' not allowed")
    assert not ran.exists()


def test_neither_tags_nor_submodules_are_fetched(
    author: Repository, node: Repository, follower: Follower, tmp_path: Path
) -> None:
    part = Repository.bare(tmp_path / "part.git").clone(tmp_path / "part")
    first = part.commit({"a": "1"})
    for repository in (author, node):
        repository.git("config", "protocol.file.allow", "always")
        repository.git("config", "submodule.recurse", "true")
        repository.git("config", "fetch.recurseSubmodules", "true")
    allowed = ("-c", "protocol.file.allow=always")
    author.git(*allowed, "submodule", "add", "--quiet", str(tmp_path / "part.git"), "sub")
    tip = author.commit({})
    assert follower.pull() == Pulled(tip, "")
    assert list((node.path / "sub").iterdir()) == []
    node.git(*allowed, "submodule", "update", "--init", "--quiet")
    part.commit({"a": "2"})
    Repository(author.path / "sub").git("pull", "--quiet")
    author.git("add", "sub")
    tip = author.commit({})
    author.git("tag", "v1")
    author.git("push", "--quiet", "origin", "v1")
    assert follower.pull() == Pulled(tip, "")
    assert node.git("tag", "--list") == ""
    assert Repository(node.path / "sub").head == first
    assert Repository(node.path / "sub").git("rev-list", "--all") == first


def test_an_owner_may_ask_for_signed_commits(
    author: Repository, node: Repository, follower: Follower
) -> None:
    node.git("config", "merge.verifySignatures", "true")
    author.commit({"x": "x"})
    refused(follower.pull(), node, "does not have a GPG signature")


def test_a_move_that_fails_in_the_middle_is_taken_back(
    author: Repository, node: Repository, follower: Follower
) -> None:
    """The filter simulates a full disk: git has written files when it fails."""
    first = author.commit({".gitattributes": "*.z filter=full\n"})
    second = author.commit(
        {"a_new.py": "new\n", "spiders/shop.py": "two\n", "old.txt": None, "last.z": "z\n"}
    )
    assert follower.pull(first) == Pulled(first, "")
    before = node.texts()
    node.git("config", "filter.full.required", "true")
    node.git("config", "filter.full.smudge", "false")
    node.git("config", "filter.full.clean", "cat")
    refused(follower.pull(second), node, "git merge:", "smudge filter full failed")
    assert node.head == first
    assert node.texts() == before
    assert node.git("status", "--porcelain") == ""
    node.git("config", "filter.full.smudge", "cat")
    assert follower.pull(second) == Pulled(second, "")
    node.git("config", "filter.full.smudge", "false")
    assert follower.pull(first, back=True) == Pulled(first, "")


def test_a_git_at_work_is_waited_for(
    author: Repository, node: Repository, follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = author.commit({"x": "x"})
    lock = node.path / ".git" / "index.lock"
    lock.touch()
    timer = threading.Timer(0.3, lock.unlink)
    timer.start()
    assert follower.pull() == Pulled(tip, "")
    timer.join()
    monkeypatch.setattr(git, "GIT_BUSY_TIMEOUT", 0.2)
    lock.touch()
    refused(follower.pull(), node, "another git is at work", f"remove {lock}")


def test_nodes_that_share_a_checkout_pull_one_after_the_other(
    author: Repository, node: Repository
) -> None:
    tips = [author.commit({"x": str(number)}) for number in range(4)]
    answers: list[Pulled] = []

    def pull() -> None:
        answers.append(follower_of(node).pull(tips[-1]))

    threads = [threading.Thread(target=pull) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [Pulled(tips[-1], "")] * 4


def test_a_shallow_clone_follows_too(
    author: Repository, remote: Repository, tmp_path: Path
) -> None:
    author.commit({"x": "1"})
    shallow = Repository(tmp_path / "shallow")
    author.git("clone", "--quiet", "--depth", "1", f"file://{remote.path}", str(shallow.path))
    assert len(shallow.git("rev-list", "HEAD").split()) == 1
    tip = author.commit({"x": "2"})
    assert follower_of(shallow).pull(tip) == Pulled(tip, "")
