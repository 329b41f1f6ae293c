"""The plug-in for pytest, run on projects as their authors have them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawlframe.code.registry import Registry
from crawlframe.recorded.record import make
from crawlframe.recorded.recorder import Recorder
from tests.conftest import CHECKOUT
from tests.imports import undone
from tests.recorded.site import SETTINGS, Site, running

SPIDER = """
from crawlframe import Expect, Request, Spider


class Books(Spider):
    name = "books"
    settings = {"delay": 0, "robots": False}
    expect = Expect(fields={"price": 0.9}, unique="title")

    def start(self, site: str):
        yield Request(f"{site}/shelf")

    def parse(self, response):
        yield from response.follow_all(css="a.book", callback=self.book)

    def book(self, response):
        price = response.css("b::text").get()
        yield {"title": response.url.rpartition("/")[2], "price": price}
"""

# Nearly all of the time of a run goes into imports: of ours, and of other plug-ins for pytest.
PYTEST_SERVER = """
import json, os, sys
import pytest
import crawlframe.code.registry, crawlframe.recorded.replay, crawlframe.testing
for line in sys.stdin:
    if not (child := os.fork()):
        directory, output, words = json.loads(line)
        os.chdir(directory)
        written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(written, 1), os.dup2(written, 2)
        sys.exit(pytest.main(words))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Site]]:
    """A project with a recording of three books, one of them without a page; and its site."""
    project = tmp_path_factory.mktemp("project")
    (project / "bookspiders").mkdir()
    (project / "bookspiders" / "__init__.py").touch()
    (project / "bookspiders" / "books.py").write_text(SPIDER)
    with running() as site, undone("bookspiders"):
        kind = Registry.load(project / "bookspiders").get("books")
        visits = Recorder(kind, {"site": site.url}, SETTINGS, pause=0).run(10)
        folder = project / "tests" / "recorded" / "books"
        make(folder, kind, {"site": site.url}, visits, SETTINGS).recording.write()
        yield project, site


@pytest.fixture
def project(recorded: tuple[Path, Site], tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(recorded[0], tmp_path / "project"))


@pytest.fixture(scope="module")
def pytest_server() -> Iterator[subprocess.Popen[str]]:
    """Forks a run of pytest for each line of its input, and says its exit code."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    with subprocess.Popen(
        [sys.executable, "-c", PYTEST_SERVER],
        env=env
        | {
            "PYTHONPATH": str(CHECKOUT),
            "CRAWLFRAME_SPIDERS": "bookspiders",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        yield server


@pytest.fixture
def run(project: Path, tmp_path: Path, pytest_server: subprocess.Popen[str]) -> Callable[..., str]:
    output = tmp_path / "output"

    def run(*words: str) -> str:
        """Runs pytest in the project; returns its output."""
        assert pytest_server.stdin
        assert pytest_server.stdout
        words = ("-p", "crawlframe.recorded.pytest_plugin", *words)
        print(json.dumps([str(project), str(output), words]), file=pytest_server.stdin, flush=True)
        code = pytest_server.stdout.readline().strip()
        return f"{output.read_text()}\nexit {code}"

    return run


def edit(project: Path, before: str, after: str) -> None:
    path = project / "bookspiders" / "books.py"
    source = path.read_text()
    assert before in source
    path.write_text(source.replace(before, after))


def test_each_page_is_a_test_with_a_readable_id(run: Callable[..., str]) -> None:
    said = run("-v", "tests")
    for name in ("start", "shelf", "book-emma", "book-gone", "old-emma", "fields"):
        assert f"tests/recorded/books/recording.json::{name} PASSED" in said
    assert said.endswith("exit 0")
    one = run("-q", "tests/recorded/books/recording.json::book-emma")
    assert "1 passed" in one


def test_a_difference_is_shown_by_field_with_the_url(
    project: Path, run: Callable[..., str]
) -> None:
    edit(project, '"b::text"', '"i::text"')
    said = run("-q")
    assert "books: book-emma (http://127.0.0.1:" in said
    assert "  items[0].price: '12.50' → None" in said
    assert "pytest --update-recorded tests/recorded/books" in said
    assert "fields are not as the spider says" in said
    assert "price: 0 of 2 items have a value, 0%; at least 90% should; it lacks on http" in said
    assert "Traceback" not in said


def test_a_new_result_is_accepted(project: Path, run: Callable[..., str]) -> None:
    edit(project, '"price": price}', '"price": float(price), "shelf": 1}')
    assert "items[0].price: '12.50' → 12.5 (was text, is float)" in run("-q")
    said = run("-q", "--update-recorded")
    assert "recorded results that were updated" in said
    assert "books: book-emma" in said
    assert "books: shelf" not in said  # it is the same
    assert run("-q").endswith("exit 0")
    result = project / "tests/recorded/books/book-emma.result.json"
    assert json.loads(result.read_text())["items"] == [{"title": "emma", "price": 12.5, "shelf": 1}]


def test_what_a_callback_raises_is_shown_with_its_code(
    project: Path, run: Callable[..., str]
) -> None:
    edit(project, '"price": price}', '"price": float(price[10])}')
    said = run("-q", "--update-recorded")
    assert "book-emma (http://127.0.0.1:" in said
    assert "its callback raised" in said
    assert re.search(r'bookspiders/books.py", line \d+, in book\n', said)
    assert "IndexError: string index out of range" in said
    assert "crawlframe/node" not in said
    assert "exit 1" in said


def test_links_that_are_not_followed_any_more_are_named(
    project: Path, run: Callable[..., str]
) -> None:
    edit(project, 'css="a.book"', 'css="a.book:first-child"')
    said = run("-q")
    assert "requests[2]: request is gone: {'url': 'http://127.0.0.1:" in said


def test_nothing_goes_out(project: Path, run: Callable[..., str]) -> None:
    edit(
        project,
        "        price =",
        "        import urllib.request\n"
        "        try: urllib.request.urlopen(response.url)\n"
        "        except Exception: pass\n"
        "        price =",
    )
    said = run("-q", "-k", "book-emma")
    assert "recorded page book-emma (http://127.0.0.1:" in said
    assert "it reached for 127.0.0.1:" in said


def test_it_works_on_several_processes(project: Path, run: Callable[..., str]) -> None:
    edit(project, '"price": price}', '"price": price, "shelf": 1}')
    said = run("-q", "-p", "xdist.plugin", "-n2", "--update-recorded")
    assert "books: book-emma" in said
    result = project / "tests/recorded/books/book-emma.result.json"
    assert json.loads(result.read_text())["items"][0]["shelf"] == 1


def test_missing_spiders_callbacks_and_files_are_clean_failures(
    project: Path, run: Callable[..., str]
) -> None:
    edit(project, "def book(", "def volume(")
    edit(project, "self.book", "self.volume")
    said = run("-q")
    assert "spider 'books' has no method 'book'" in said
    assert "INTERNALERROR" not in said
    edit(project, 'name = "books"', 'name = "novels"')
    said = run("-q")
    assert "there is no spider 'books'" in said
    assert "1 failed" in said
    edit(project, "class Books", "class")
    assert "Not loaded: " in run("-q")
    (project / "tests/recorded/books/recording.json").write_text("{")
    said = run("-q")
    assert "recording.json is damaged" in said
    (project / "tests/recorded/books/recording.json").unlink()
    assert "recording.json cannot be read" in run("-q")


def test_the_fixture_runs_pages_for_tests_of_ones_own(
    project: Path, run: Callable[..., str]
) -> None:
    (project / "tests" / "test_books.py").write_text(
        "from bookspiders.books import Books\n"
        "def test_prices(recorded):\n"
        "    books = recorded('books')\n"
        "    assert books.pages[0] == 'start'\n"
        "    assert books.run('book-emma').items == [{'title': 'emma', 'price': '12.50'}]\n"
        "    assert books.url('book-emma').endswith('/book/emma')\n"
        "    assert len(books.items()) == 2\n"
        "def test_the_same_classes_everywhere(recorded, monkeypatch):\n"
        "    monkeypatch.setattr(Books, 'book', lambda self, response: [{'title': 'mine'}])\n"
        "    assert recorded('books').run('book-emma').items == [{'title': 'mine'}]\n"
        "def test_none(recorded):\n"
        "    recorded('nothing')\n"
    )
    said = run("-q", "tests/test_books.py", "-p", "no:cacheprovider")
    assert "2 passed" in said, said
    assert "recorded/nothing/recording.json cannot be read" in said
    assert said.count("Traceback") == 0
    assert "2 passed" in run("-q", "-k", "prices or same")


def test_without_recordings_nothing_is_imported(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(
        "import sys\n"
        "def test_nothing():\n"
        "    assert not [n for n in sys.modules if n.startswith('crawlframe.node')]\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "crawlframe.recorded.pytest_plugin"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(CHECKOUT),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
    )
    assert "1 passed" in done.stdout, done.stdout


def test_a_file_of_another_program_is_no_recording(project: Path, run: Callable[..., str]) -> None:
    (project / "tests" / "audio").mkdir()
    (project / "tests" / "audio" / "recording.json").write_text('{"title": "a song"}')
    assert "song" not in run("-q")
    assert "audio" not in run("-q", "tests/audio", "--collect-only")
    shutil.copytree(project / "tests/recorded/books", project / "elsewhere")
    assert "elsewhere/recording.json::start" in run("-v", "elsewhere")
    for path in (project / "tests/recorded/books").glob("*.page.json"):
        path.unlink()
    assert "has no pages; record some" in run("-q", "tests")
