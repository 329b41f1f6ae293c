"""Version: the files that count as code, their label, and their settling. With a real git."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from crawlframe.code.checkout import Checkout
from crawlframe.code.version import GONE, Snapshot, code_version, content, digest, files, is_code


@pytest.fixture
def project(committed: Path, tmp_path: Path) -> Path:
    """A checkout with one commit: spiders/, engine/ and prices.csv."""
    return Path(shutil.copytree(committed, tmp_path / "project"))


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project")
    for name, text in {
        "spiders/__init__.py": "",
        "spiders/one.py": "x = 1\n",
        "engine/core.py": "y = 1\n",
        "prices.csv": "1\n",
        "README": "read\n",
        ".gitignore": "__pycache__/\n*.local\n",
    }.items():
        write(root / name, text)
    git(root, "init", "-q")
    commit(root)
    return root


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def git(root: Path, *words: str) -> str:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    done = subprocess.run(
        ["git", *identity, *words], cwd=root, capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def commit(root: Path) -> str:
    git(root, "add", "-A")
    return git(root, "commit", "-q", "--allow-empty", "-m", "a change")


def below(tree: Path) -> list[str]:
    return [str(path.relative_to(tree)) for path in files(tree)]


# -- files and digest --------------------------------------------------------------------------


def test_files_are_sorted_and_without_what_is_no_code(tmp_path: Path) -> None:
    kept = ["a/b/c.py", "a/z.py", "a.py", "data.json", "page.html"]
    left = [
        "__pycache__/a.cpython-311.pyc", "a/b/__pycache__/c.pyc", "old.pyc", ".hidden.py",
        ".git/config", "a/.cache/x.py", "a.py~", ".a.py.swp", "#a.py#", ".#a.py", "4913",
        "a.py___jb_tmp___", "a.py___jb_old___",
    ]  # fmt: skip
    for name in kept + left:
        write(tmp_path / name, "")
    assert below(tmp_path) == kept
    assert all(is_code(Path(name)) for name in kept)
    assert not any(is_code(Path(name)) for name in left)


def test_the_tree_itself_may_be_hidden_or_one_file(tmp_path: Path) -> None:
    write(tmp_path / ".env/spiders/a.py", "")
    write(tmp_path / ".env/settings", "")
    assert below(tmp_path / ".env/spiders") == ["a.py"]
    assert [*files(tmp_path / ".env/settings")] == [tmp_path / ".env/settings"]
    assert [*files(tmp_path / "nothing")] == []


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    tree, away = tmp_path / "tree", tmp_path / "away"
    write(tree / "shops/a.py", "")
    write(away / "b.py", "")
    (away / "back").symlink_to(tree / "shops")
    (tree / "shared").symlink_to(away)
    (tree / "shops/loop").symlink_to(tree / "shops")
    (tree / "up").symlink_to(tmp_path)
    (tree / "alias.py").symlink_to(away / "b.py")
    (tree / "dangling.py").symlink_to(tmp_path / "nothing.py")
    os.mkfifo(tree / "pipe.py")
    assert below(tree) == ["alias.py", "shared/b.py", "shared/back/a.py", "shops/a.py"]
    link = tmp_path / "link"
    link.symlink_to(tree)
    assert below(link) == below(tree)


@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "a.py").write_text("x = 2\n"),
        lambda tree: (tree / "a.py").rename(tree / "c.py"),
        lambda tree: (tree / "new.py").touch(),
        lambda tree: (tree / "b.py").unlink(),
        lambda tree: ((tree / "a.py").write_text("x = 1\ny"), (tree / "b.py").write_text(" = 1\n")),
    ],
)
def test_a_digest_tells_names_and_contents(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    tree, same = tmp_path / "tree", tmp_path / "same"
    write(tree / "a.py", "x = 1\n")
    write(tree / "b.py", "y = 1\n")
    shutil.copytree(tree, same)
    before = digest(files(tree), tree)
    assert re.fullmatch("[0-9a-f]{12}", before)
    assert digest(files(same), same) == before
    change(tree)
    assert digest(files(tree), tree) != before


def test_a_file_that_goes_between_listing_and_reading_changes_the_digest(tmp_path: Path) -> None:
    write(tmp_path / "a.py", "")
    found = [*files(tmp_path)]
    before = digest(found, tmp_path)
    (tmp_path / "a.py").unlink()
    assert content(tmp_path / "a.py") == GONE
    assert digest(found, tmp_path) != before
    assert digest([], tmp_path) != digest(found, tmp_path)


def test_a_file_outside_the_base_is_named_from_there(tmp_path: Path) -> None:
    write(tmp_path / "a/x", "1")
    write(tmp_path / "b/x", "1")
    assert digest([tmp_path / "a/x"], tmp_path / "t") != digest([tmp_path / "b/x"], tmp_path / "t")


# -- labels ------------------------------------------------------------------------------------


def test_a_clean_checkout_is_its_revision(project: Path) -> None:
    revision = git(project, "rev-parse", "HEAD")
    assert code_version(project / "spiders") == revision[:12]
    write(project / "README", "other\n")
    extra, engine = [project / "prices.csv"], [project / "engine"]
    assert code_version(project / "spiders", extra, engine) == revision[:12]
    snapshot = Snapshot.take(project / "spiders")
    assert (snapshot.revision, snapshot.busy) == (revision, False)


@pytest.mark.parametrize(
    "change",
    [
        lambda root: write(root / "spiders/one.py", "x = 2\n"),
        lambda root: write(root / "spiders/new.py", ""),
        lambda root: write(root / "spiders/shops/new.py", ""),
        lambda root: write(root / "spiders/secret.local", "ignored by git"),
        lambda root: (root / "spiders/one.py").unlink(),
        lambda root: (root / "spiders/one.py").rename(root / "spiders/two.py"),
        lambda root: write(root / "prices.csv", "2\n"),
        lambda root: write(root / "engine/core.py", "y = 2\n"),
        lambda root: (write(root / "spiders/one.py", "x = 2\n"), git(root, "add", "-A")),
    ],
)
def test_what_the_revision_does_not_have_brings_a_digest(
    project: Path, change: Callable[[Path], object]
) -> None:
    revision = git(project, "rev-parse", "HEAD")[:12]
    change(project)
    parts = (project / "spiders", [project / "prices.csv"], [project / "engine"])
    label = code_version(*parts)
    assert re.fullmatch(rf"{revision}\+[0-9a-f]{{12}}", label)
    write(project / "spiders/further.py", "")
    assert code_version(*parts) != label
    assert code_version(*parts).startswith(f"{revision}+")


@pytest.mark.parametrize("name", ["__pycache__/one.pyc", "one.py~", ".one.py.swp", "4913"])
def test_leftovers_do_not_make_it_dirty(project: Path, name: str) -> None:
    before = Snapshot.take(project / "spiders")
    write(project / "spiders" / name, "x")
    assert Snapshot.take(project / "spiders") == before
    assert "+" not in before.version


def test_an_edit_of_equal_size_with_its_old_time_makes_it_dirty(project: Path) -> None:
    path = project / "spiders/one.py"
    label, times = code_version(project / "spiders"), path.stat()
    path.write_text("x = 7\n")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert code_version(project / "spiders").startswith(f"{label}+")


def test_what_lies_outside_the_checkout_brings_a_digest(project: Path, tmp_path: Path) -> None:
    tree = project / "spiders"
    write(tmp_path / "rates.csv", "1\n")
    first = code_version(tree, [tmp_path / "rates.csv"])
    write(tmp_path / "rates.csv", "2\n")
    second = code_version(tree, [tmp_path / "rates.csv"])
    assert first != second
    assert "+" in first
    # Git knows the target of a link, not its content.
    (tree / "rates.csv").symlink_to(tmp_path / "rates.csv")
    commit(project)
    linked = code_version(tree)
    write(tmp_path / "rates.csv", "3\n")
    assert code_version(tree) != linked
    assert "+" in linked


def test_links_within_the_checkout_keep_the_revision(project: Path) -> None:
    (project / "spiders/prices.csv").symlink_to("../prices.csv")
    (project / "spiders/up").symlink_to("..")
    commit(project)
    label = code_version(project / "spiders")
    assert "+" not in label
    write(project / "README", "not reached by the link that leads up\n")
    assert code_version(project / "spiders") == label
    write(project / "prices.csv", "2\n")
    assert code_version(project / "spiders").startswith(f"{label}+")


def test_a_tree_behind_a_swapped_link_is_that_of_the_other_checkout(
    project: Path, tmp_path: Path
) -> None:
    second, current = tmp_path / "second", tmp_path / "current"
    git(tmp_path, "clone", "-q", str(project), str(second))
    write(second / "spiders/one.py", "x = 2\n")
    commit(second)
    current.symlink_to(project)
    assert code_version(current / "spiders") == git(project, "rev-parse", "HEAD")[:12]
    current.unlink()
    current.symlink_to(second)
    assert code_version(current / "spiders") == git(second, "rev-parse", "HEAD")[:12]


def test_equal_trees_have_equal_labels_on_two_machines(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "elsewhere" / "clone"
    git(tmp_path, "clone", "-q", str(project), str(clone))
    assert code_version(clone / "spiders") == code_version(project / "spiders")
    for root in (project, clone):
        write(root / "spiders/new [1].py", "new = 1\n")
    assert code_version(clone / "spiders") == code_version(project / "spiders")


def test_without_a_commit_and_without_git_it_is_a_digest(tmp_path: Path) -> None:
    tree = tmp_path / "spiders"
    write(tree / "one.py", "x = 1\n")
    assert re.fullmatch(r"\+[0-9a-f]{12}", code_version(tree))
    git(tmp_path, "init", "-q")
    assert re.fullmatch(r"\+[0-9a-f]{12}", code_version(tree))
    assert Snapshot.take(tree).revision == ""
    assert re.fullmatch(r"\+[0-9a-f]{12}", code_version(tmp_path / "nothing"))


# -- standing still ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda root: write(root / "spiders/one.py", "x = 2\n"),
        lambda root: write(root / "spiders/new.py", ""),
        lambda root: (root / "spiders/one.py").unlink(),
        lambda root: (write(root / "README", "other\n"), commit(root)),
    ],
)
def test_a_change_between_two_snapshots_shows(
    project: Path, change: Callable[[Path], object]
) -> None:
    before = Snapshot.take(project / "spiders")
    again = Snapshot.take(project / "spiders", [project / "prices.csv"])
    assert (again.digest, again.revision) == (before.digest, before.revision)
    change(project)
    after = Snapshot.take(project / "spiders")
    assert (after.digest, after.revision) != (before.digest, before.revision)


def test_a_checkout_that_git_works_on_is_busy(project: Path) -> None:
    checkout = Checkout.around(project)
    assert checkout is not None
    quiet = Snapshot.take(project / "spiders")
    checkout.lock.touch()
    busy = Snapshot.take(project / "spiders", checkout=checkout)
    assert (quiet.busy, busy.busy) == (False, True)


def test_a_tree_that_is_a_checkout_of_its_own_can_be_dirty(project: Path) -> None:
    spiders = project / "spiders"
    git(spiders, "init", "-q")
    commit(spiders)
    clean = code_version(spiders)
    assert re.fullmatch("[0-9a-f]{12}", clean)
    write(spiders / "one.py", "x = 2\n")
    assert code_version(spiders).startswith(f"{clean}+")
