"""Crawlframe as a package: built, installed without this checkout, and upgraded while a node of a
project runs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import requests

from crawlframe import __version__
from tests.conftest import CHECKOUT, Running
from tests.process.conftest import Look, OddWeb
from tests.process.reload_project import Gate, View, is_gone, shop
from tests.repository import ENVIRONMENT, Repository

pytestmark = pytest.mark.process

SOURCES = ("crawlframe", "crawlservice", "pyproject.toml", "README.md", "LICENSE")
NEWER = "0.1.99"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")


def run(*words: object, **options: object) -> str:
    """The output of a program that must succeed."""
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout + done.stderr)


def built(directory: Path, version: str | None = None) -> Path:
    """A wheel of this checkout, or one like it of another version."""
    source = directory / "source"
    source.mkdir(parents=True)
    requirements = [path.name for path in CHECKOUT.glob("requirements*.txt")]
    for name in (*SOURCES, *requirements):
        place = CHECKOUT / name
        copy = shutil.copytree if place.is_dir() else shutil.copy
        copy(place, source / name)
    if version:
        module = source / "crawlframe/__init__.py"
        text = re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', module.read_text())
        module.write_text(text)
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", directory)
    run(*PIP, "wheel", *options, source)
    (wheel,) = directory.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel"))


class Environment:
    """A virtual environment that sees the dependencies of this one, and no checkout."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        run(sys.executable, "-m", "venv", "--without-pip", root)
        (packages,) = root.glob("lib/python*/site-packages")
        (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
        self.packages = packages

    def install(self, wheel: Path) -> None:
        options = ("--no-deps", "--no-index", "--no-compile", "--upgrade", wheel)
        run(*PIP, "--python", self.bin / "python", "install", *options)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("environment") / "venv")
    environment.install(wheel)
    return environment


@pytest.fixture(scope="module")
def crawlframe(environment: Environment) -> Path:
    """The program."""
    return environment.bin / "crawlframe"


@pytest.fixture
def env(manage_env: dict[str, str]) -> dict[str, str]:
    """Servers for tests, but nothing that a user of the package would not have."""
    for name in ("DJANGO_SETTINGS_MODULE", "CRAWLFRAME_VAR_DIR", "CRAWLFRAME_ENV_FILE"):
        manage_env.pop(name, None)
    del manage_env["CRAWLFRAME_ALLOW_PRIVATE"]
    return {**manage_env, **ENVIRONMENT}


@pytest.fixture(scope="module")
def new_project(crawlframe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as startproject makes it."""
    home = tmp_path_factory.mktemp("home")
    ours = ("CRAWLFRAME_", "DJANGO_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    run(crawlframe, "startproject", "shop", cwd=home, env={**env, **ENVIRONMENT})
    assert [path.name for path in home.iterdir()] == ["shop"]
    return home / "shop"


@pytest.fixture
def project(new_project: Path, tmp_path: Path) -> Path:
    """A new project with one more spider and settings of its own."""
    root = tmp_path / "home" / "shop"
    shutil.copytree(new_project, root, symlinks=True)
    (root / "spiders/shop.py").write_text(shop("first"))
    (root / ".env").write_text("CRAWLFRAME_ALLOW_PRIVATE=127.0.0.0/8\n")
    return root


def test_the_wheel_holds_what_is_no_module(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        (metadata,) = (name for name in names if name.endswith("/METADATA"))
        described = file.read(metadata).decode()
    assert {"crawlframe/py.typed", "crawlservice/py.typed"} <= names
    assert "crawlframe/frontier/lua/claim/take.lua" in names
    assert "crawlservice/templates/project/spiders/quotes.py.txt" in names
    assert "crawlservice/templates/deploy/github/workflows/test.yml.txt" in names
    assert "crawlservice/templates/deploy/deploy/systemd/crawlframe-node@.service.txt" in names
    assert not [name for name in names if name.startswith(("tests/", "spiders/", "benchmarks/"))]
    assert all(f"Provides-Extra: {extra}\n" in described for extra in ("parquet", "poet", "all"))
    needed = [line for line in described.splitlines() if line.startswith("Requires-Dist: pyarrow")]
    assert needed
    assert all("extra ==" in line for line in needed)


def test_the_test_of_a_new_project_passes(
    project: Path, environment: Environment, env: dict[str, str]
) -> None:
    said = run(environment.bin / "python", "-m", "pytest", "-q", cwd=project, env=env)
    assert "1 passed" in said


def test_a_clone_of_a_project_installs_our_wheel(new_project: Path, tmp_path: Path) -> None:
    """No index is needed: PyPI has another package of the name."""
    options = ("--no-deps", "--no-index", "--dest", tmp_path, "-r", "requirements-dev.txt")
    run(*PIP, "download", *options, cwd=new_project)
    assert [*tmp_path.glob(f"crawlframe-{__version__}-*.whl")]


def test_a_crawl_in_a_project(
    project: Path, crawlframe: Path, env: dict[str, str], web: OddWeb
) -> None:
    """Its spiders, settings and data are in its folder, wherever in it the command is typed."""
    web.pages["/"] = ["/a", "/b"]
    words = ("crawl", "shop", "-a", f"url={web.url}", "-o", "items.jsonl", "--workers", 1)
    said = run(crawlframe, *words, cwd=project, env=env)
    items = map(json.loads, (project / "items.jsonl").read_text().splitlines())
    assert {item["url"] for item in items} == {web.url + page for page in ("", "a", "b")}
    assert (project / "var/crawlframe.sqlite3").exists()
    assert "crawlframe task list" in said
    assert "manage.py" not in said
    assert "shop" in run(crawlframe, "task", "list", cwd=project / "spiders", env=env)
    assert not (project / "spiders/var").exists()


def test_the_service_of_a_project(
    project: Path, crawlframe: Path, env: dict[str, str], start_manage: Callable[..., Running]
) -> None:
    """Web and node; started from elsewhere, by the manage.py of the project."""
    python = crawlframe.with_name("python")
    words = (project / "manage.py", "up", "--bind", "127.0.0.1:0", "--workers", 1)
    up = start_manage(*words, program=python, env=env, cwd=project.parent)
    up.wait_for("The web listens at ")
    up.wait_for("generation")
    url = next(word for word in up.output.split() if word.startswith("http://"))
    assert set(requests.get(f"{url}healthz", timeout=30).json().values()) == {True}
    assert (project / "var/crawlframe.sqlite3").exists()
    assert up.stop(signal.SIGINT) == 0
    assert "Traceback" not in up.output


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


def test_an_upgrade_is_handed_over(
    project: Path,
    wheel: Path,
    env: dict[str, str],
    start_manage: Callable[..., Running],
    look: Look,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    """pip replaces the package while a node runs: a new master takes over, and so does a new
    supervisor; neither needs the script of the entry point. The old one finishes its requests in
    flight. The package is inside the checkout of the project, but ignored by git: the revision
    still names the code that runs."""
    environment = Environment(project / ".venv")
    environment.install(wheel)
    remote = Repository.bare(tmp_path / "remote")
    repository = Repository(project)
    repository.commit({}, push=False)
    repository.git("remote", "add", "origin", str(remote.path))
    head = repository.commit({"spiders/shop.py": shop("first")})
    words = ("runcrawler", "--reload", "--follow", "main", "--workers", 1, "--node", "one")
    running = start_manage(*words, program=environment.bin / "crawlframe", env=env, cwd=project)
    node = View(look, running, "one")
    node.ready()
    assert node.code.version == head[:12]
    old_master = psutil.Process(node.node.pid)
    web.delays = gate = Gate()
    web.pages["/"] = [f"/held/{n}" for n in range(3)]
    pk = node.start(web.url)
    node.until(lambda: web.hits.total() == 4)

    newer = built(tmp_path / "newer", NEWER)
    (environment.bin / "crawlframe").unlink()
    environment.install(newer)
    (environment.bin / "crawlframe").unlink()  # as it is for some seconds of a larger upgrade
    assert (environment.packages / f"crawlframe-{NEWER}.dist-info").is_dir()
    node.until(lambda: node.node.generation > 1 and node.code.seconds)
    assert node.crawl(f"{web.url}other") == "first"
    gate.open()
    assert set(node.items(pk, 4).values()) == {"first"}
    node.until(lambda: is_gone(old_master))
    running.wait_for("the supervisor re-executes itself")
    running.wait_for("the supervisor was re-executed")
    assert node.code.version == head[:12]
    assert web.hits.total() == 5

    (project / "spiders/shop.py").write_text(shop("second"))
    node.until(lambda: node.code.version.startswith(f"{head[:12]}+") and node.code.state == "live")
    assert node.crawl(f"{web.url}third") == "second"
    assert running.stop() == 0
