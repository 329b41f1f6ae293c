"""The folder of a project: its search, its .env, and the files of startproject."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from unittest.mock import patch

import pytest
from django.core.management import call_command

from crawlframe import __version__
from crawlframe.base.program import command
from crawlframe.errors import ConfigError
from crawlservice import project
from crawlservice.cli import program
from crawlservice.cli.utility import Utility
from crawlservice.management.commands import startproject
from crawlservice.management.commands.startproject import NewProjectError, write_project
from tests.conftest import CHECKOUT
from tests.repository import ENVIRONMENT, Repository


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "shop"
    write_project(folder, "shop")
    return folder


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``typed("crawlframe", "tasks", at=folder)``: makes this process look as if started so."""

    def start(*words: object, at: Path) -> None:
        monkeypatch.setattr(sys, "argv", [str(word) for word in words])
        monkeypatch.chdir(at)

    return start


# Where it is


def test_the_entry_point_finds_the_project_around_the_working_directory(shop, typed) -> None:
    typed("/usr/bin/crawlframe", "tasks", at=shop / "spiders")
    assert project.script() == shop / "manage.py"
    assert project.directory() == shop


def test_a_manage_py_that_was_started_is_the_project_wherever_one_is(shop, typed, tmp_path) -> None:
    typed("shop/manage.py", "tasks", at=tmp_path)
    assert project.script() == shop / "manage.py"
    typed(shop / "manage.py", "tasks", at=CHECKOUT)
    assert project.directory() == shop


def test_a_manage_py_of_others_is_none(typed, tmp_path, monkeypatch) -> None:
    (tmp_path / "manage.py").write_text("import django\n")
    typed("crawlframe", "tasks", at=tmp_path)
    assert project.script() == CHECKOUT / "manage.py"  # in the checkout of this package
    monkeypatch.setattr(project, "__file__", str(tmp_path / "installed/crawlservice/project.py"))
    assert project.script() is None
    assert project.directory() == tmp_path.resolve()


def test_outside_of_a_project_only_help_and_startproject_do_something(
    typed, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(project, "__file__", str(tmp_path / "installed/crawlservice/project.py"))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    ran: list[list[str]] = []
    monkeypatch.setattr(Utility, "execute", lambda typed: ran.append(typed.argv))
    for words in ([], ["help"], ["startproject", "shop"]):
        typed("crawlframe", *words, at=tmp_path)
        program.main()
        assert ran.pop()[1:] == words
        assert os.environ["DJANGO_SETTINGS_MODULE"] == "crawlservice.outside_settings"
    for words in (["tasks"], ["help", "crawl"]):
        typed("crawlframe", *words, at=tmp_path)
        with pytest.raises(SystemExit, match="make one: crawlframe startproject NAME"):
            program.main()
    assert ran == []


def test_in_a_project_its_spiders_can_be_imported(shop, typed, monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    monkeypatch.setattr(Utility, "execute", lambda typed: None)
    for words, module in (
        ("runcrawler", "node_settings"),
        ("task list", "node_settings"),
        ("token list", "settings"),
        ("migrate", "settings"),
    ):
        typed("crawlframe", *words.split(), at=shop)
        program.main()
        assert sys.path[0] == str(shop)
        assert os.environ["DJANGO_SETTINGS_MODULE"] == f"crawlservice.{module}"


def test_the_version_is_ours_not_djangos(typed, capsys, tmp_path) -> None:
    typed("crawlframe", "--version", at=tmp_path)
    program.main()
    assert capsys.readouterr().out == f"{__version__}\n"


# Its name in messages


@pytest.mark.parametrize(
    ("program_name", "line"),
    [
        ("manage.py", "python manage.py node list"),
        ("/srv/shop/.venv/bin/crawlframe", "crawlframe node list"),
        ("/usr/bin/gunicorn", "python manage.py node list"),
    ],
)
def test_messages_name_the_program_that_was_typed(
    typed, tmp_path, program_name: str, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(program_name, at=tmp_path)
    assert command("node list") == line
    monkeypatch.setattr("crawlframe.base.program.CHECKOUT", False)  # as installed by pip
    manage = program_name.endswith("manage.py")
    assert command("node list") == f"{'python manage.py' if manage else 'crawlframe'} node list"


# Its settings


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str]]:
    """The environment after ``load_environment``. ``text``: of the file .env."""

    def load(text: str, **before: str) -> dict[str, str]:
        (tmp_path / ".env").write_text(text)
        variables: dict[str, str] = dict(before)
        monkeypatch.setattr(os, "environ", variables)
        project.load_environment(tmp_path)
        return variables

    return load


def test_the_file_of_settings_is_read_as_everybody_writes_it(environment) -> None:
    lines = (
        "# a comment\n\nCRAWLFRAME_NODE=alpha  # the first\n  export REDIS_URL = redis://db/0 \n"
        'A="two words" # of it\nB=\'# $HOME\'\nC=a=b#c\nD=\nE=${HOME}\nF="a \\"b\\"\\nc"\n'
        "G='a\nb'\nH= # nothing\n"
    )
    assert environment(lines) == {
        "CRAWLFRAME_NODE": "alpha",
        "REDIS_URL": "redis://db/0",
        "A": "two words",
        "B": "# $HOME",
        "C": "a=b#c",
        "D": "",
        "E": "${HOME}",
        "F": 'a "b"\nc',
        "G": "a\nb",
        "H": "",
    }


def test_what_the_environment_says_wins(environment) -> None:
    assert environment("A=file\nB=\nB=last", A="given") == {"A": "given", "B": "last"}


@pytest.mark.parametrize(
    "line", ["DATABASE_URL", "1A=x", "A='x", 'A="', "A B=x", "A-B=x", "A='x' y", "=x"]
)
def test_a_line_that_means_nothing_is_named(environment, line: str) -> None:
    with pytest.raises(ConfigError, match=r"\.env:2: .* is not NAME=value"):
        environment(f"# settings\n{line}\n")


def test_another_file_may_be_named_and_must_exist(environment, tmp_path: Path) -> None:
    (tmp_path / "production.env").write_text("A=production\n")
    variables = environment("A=here", CRAWLFRAME_ENV_FILE="production.env")
    assert variables["A"] == "production"
    with pytest.raises(ConfigError, match="there is no file"):
        environment("A=here", CRAWLFRAME_ENV_FILE="/nowhere/production.env")
    variables = environment("A=here", CRAWLFRAME_ENV_FILE=os.devnull)
    assert "A" not in variables


# Projects made by startproject


def test_a_new_project_has_all_it_needs(shop: Path) -> None:
    names = {str(path.relative_to(shop)) for path in shop.rglob("*") if path.is_file()}
    assert names == {
        ".gitignore", "README.md", "env.example", "manage.py", "pyproject.toml",
        "requirements-dev.txt", "requirements.txt",
        "spiders/__init__.py", "spiders/project.py", "spiders/quotes.py",
        "tests/test_quotes.py", "wheels/README.md",
    }  # fmt: skip
    assert f"crawlframe~={__version__}\n" in (shop / "requirements.txt").read_text()
    assert os.access(shop / "manage.py", os.X_OK)
    assert "$" not in "".join(path.read_text() for path in shop.rglob("*.*") if path.is_file())


def test_its_requirements_offer_every_extra(shop: Path) -> None:
    built = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    extras = built["tool"]["setuptools"]["dynamic"]["optional-dependencies"]
    text = (shop / "requirements.txt").read_text()
    offered = re.findall(r"^# (crawlframe\[(\w+)\]) +# \w", text, re.MULTILINE)
    assert [name for _, name in offered] == [*extras]


@pytest.mark.parametrize("name", ["", "1shop", "my shop", "../shop", "ä"])
def test_a_name_that_cannot_be_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(NewProjectError, match="use letters, digits, - and _"):
        write_project(tmp_path / "new", name)
    assert not (tmp_path / "new").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(NewProjectError, match="is not empty"):
        write_project(tmp_path, "shop")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def made(folder: Path, *, by_wheel: bool = True) -> tuple[str, str]:
    """Standard output and error of startproject, of a Crawlframe that was installed from a wheel,
    or of a checkout."""
    wheel = folder.parent / "crawlframe-9-py3-none-any.whl"
    wheel.touch()
    out, problems = StringIO(), StringIO()
    with patch.object(startproject, "_own_wheel", return_value=wheel if by_wheel else None):
        call_command("startproject", "shop", str(folder), stdout=out, stderr=problems)
    return out.getvalue(), problems.getvalue()


@pytest.mark.forks
def test_a_project_has_the_wheel_or_a_note_where_to_get_it(tmp_path: Path) -> None:
    assert "wheels" not in made(tmp_path / "one")[1]
    assert (tmp_path / "one/wheels/crawlframe-9-py3-none-any.whl").exists()
    _, problems = made(tmp_path / "other", by_wheel=False)
    assert f"copy dist/crawlframe-{__version__}-py3-none-any.whl there" in problems


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def git_environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return monkeypatch


@needs_git
def test_a_new_project_is_committed(tmp_path: Path, git_environment: pytest.MonkeyPatch) -> None:
    out, problems = made(tmp_path / "shop")
    assert (problems, out.splitlines()[0]) == ("", f"made {tmp_path / 'shop'}")
    repository = Repository(tmp_path / "shop")
    assert repository.git("log", "--format=%an") == "author"
    assert repository.git("status", "--short") == ""
    (tmp_path / "shop/.env").write_text("A=secret")
    (tmp_path / "shop/var").mkdir()
    (tmp_path / "shop/var/log").touch()
    assert repository.git("status", "--short") == ""


@needs_git
def test_without_an_identity_nothing_is_committed_under_a_made_up_one(
    tmp_path: Path, git_environment: pytest.MonkeyPatch
) -> None:
    for name in ENVIRONMENT:
        if name.endswith(("_NAME", "_EMAIL")):
            git_environment.delenv(name)
    _, problems = made(tmp_path / "shop")
    assert problems.startswith("note: nothing was committed, because git does not know who you are")
    assert "A  spiders/quotes.py" in Repository(tmp_path / "shop").git("status", "--short")


@needs_git
def test_within_a_repository_none_is_made(
    tmp_path: Path, git_environment: pytest.MonkeyPatch
) -> None:
    Repository(tmp_path).git("init", "--quiet")
    _, problems = made(tmp_path / "shop")
    assert problems.startswith("note: shop is part of the git repository")
    assert not (tmp_path / "shop/.git").exists()


@pytest.mark.forks
def test_without_git_the_project_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _, problems = made(tmp_path / "shop")
    assert problems == "note: no git repository was made: git is not installed\n"
    assert (tmp_path / "shop/spiders/quotes.py").exists()
