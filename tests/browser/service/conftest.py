"""One service for all tests of this folder, with a node, an administrator and a Chromium."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.conftest import BEFORE, TIMEOUT_MS, chromium
from tests.browser.spiders import watched
from tests.conftest import Running, programs
from tests.process.reload_project import Project

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ADMIN, PASSWORD = "ada", "correct horse 9"


@pytest.fixture(scope="package")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The spiders of the service: ``watched`` and ``shop``."""
    project = Project.make(tmp_path_factory.mktemp("service") / "project")
    project.write("shops/watched.py", Path(watched.__file__).read_text())
    project.commit()
    return project


@pytest.fixture(scope="package")
def service(
    project: Project, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """The running service, on SQLite: its pages are the same on both databases."""
    directory = tmp_path_factory.mktemp("up")
    database = directory / "db.sqlite3"
    copyfile(sqlite_template, database)
    env = project.env(
        {name: value for name, value in os.environ.items() if name != "REDIS_URL"},
        CRAWLFRAME_VAR_DIR=str(directory / "var"),
        CRAWLFRAME_ALLOW_PRIVATE="127.0.0.0/8",
        DATABASE_URL=f"sqlite:///{database}",
        PYTHONUNBUFFERED="1",
    )
    with programs(env, directory) as start:
        running = start("up", "--bind", "127.0.0.1:0", "--workers", "1")
        running.wait_for("is live", timeout=200)
        yield running


@pytest.fixture(scope="package")
def setup_link(service: Running) -> str:
    """The link that ``up`` printed."""
    found = re.search(r"first administrator: (http://\S+/setup/\S+)", service.output)
    assert found, service.output
    return found[1]


@pytest.fixture(scope="package")
def site(setup_link: str) -> str:
    """The address of the service."""
    return setup_link.partition("setup/")[0]


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """While it is open, no models can be used in this thread."""
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="package")
def login(browser: Browser, setup_link: str, site: str) -> Any:
    """The cookies of the administrator, whose account the link makes."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    page.goto(setup_link)
    page.fill("[name=username]", ADMIN)
    for password, problem in (("12345", "too short"), (PASSWORD, "")):
        page.fill("[name=password1]", password)
        page.fill("[name=password2]", password)
        page.click("#setup-form button[type=submit]")
        if problem:
            page.get_by_text(problem).first.wait_for()
    page.wait_for_url(f"{site}admin/")
    cookies = context.storage_state()
    context.close()
    return cookies


@pytest.fixture
def new_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page of a browser without cookies, or with these."""
    contexts = []

    def open_(cookies: Any = None) -> Page:
        contexts.append(browser.new_context(storage_state=cookies))
        page = contexts[-1].new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.add_init_script(BEFORE)
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture
def page(new_page: Callable[..., Page], login: Any) -> Page:
    """A page with a login as administrator."""
    return new_page(login)
