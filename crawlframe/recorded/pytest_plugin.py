"""The plug-in for pytest: each page of each recording is a test, and ``recorded`` is a fixture for
tests of one's own. It is loaded by every run of pytest in an environment that has Crawlframe, so
its own imports wait until there is a recording."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from crawlframe.code.registry import Registry
    from crawlframe.recorded.folder import Recording
    from crawlframe.recorded.replay import RecordingReplay, Replayed
    from crawlframe.spider.spider import Spider
    from crawlframe.testing import Result

HEAD, PAGE = "recording.json", ".page.json"
UPDATE = "--update-recorded"
FIELDS = "fields"  # the test of all items of a spider
UPDATED = "crawlframe_updated"  # name of a property of reports

_registry = pytest.StashKey["Registry"]()


class Different(Exception):
    """The new result of a page differs from the recorded one."""


class Damaged(Exception):
    """A recording cannot be used; the message says why."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("crawlframe")
    group.addoption(
        UPDATE,
        action="store_true",
        help="accept the present results of recorded pages, in place of the recorded ones",
    )
    parser.addini("recorded", "directory of recorded pages", default="tests/recorded")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.name == HEAD and _is_ours(file_path, parent.config):
        return RecordedFolder.from_parent(parent, path=file_path)
    if file_path.name == f"start{PAGE}" and not file_path.with_name(HEAD).exists():
        return RecordedFolder.from_parent(parent, path=file_path)
    return None


def _is_ours(head: Path, config: pytest.Config) -> bool:
    """Whether a file is the head of a recording: other programs have files of this name, too."""
    root = config.rootpath / str(config.getini("recorded"))
    return head.is_relative_to(root) or next(head.parent.glob(f"*{PAGE}"), None) is not None


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    updated = [
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == UPDATED and getattr(report, "when", "") == "call"
    ]
    if updated:
        terminalreporter.section("recorded results that were updated")
        for one in sorted(updated):
            terminalreporter.write_line(one)


class RecordedFolder(pytest.File):
    """The recording of one spider."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            folder = _Folder(self.path.parent, self.config)
        except Damaged as problem:
            yield BrokenRecording.from_parent(self, name="recording", problem=str(problem))
            return
        for name in folder.recording.pages:
            yield PageTest.from_parent(self, name=name, folder=folder)
        if folder.has_fields:
            yield FieldsTest.from_parent(self, name=FIELDS, folder=folder)


class _Folder:
    """A recording with its spider."""

    def __init__(self, directory: Path, config: pytest.Config) -> None:
        """Raises Damaged."""
        from crawlframe.errors import CrawlframeError
        from crawlframe.recorded.fields import has_fields
        from crawlframe.recorded.folder import Recording
        from crawlframe.recorded.replay import RecordingReplay

        try:
            self.recording: Recording = Recording.read(directory)
            self.kind: type[Spider] = _spiders(config).get(self.recording.head.spider)
            self.replay: RecordingReplay = RecordingReplay(self.recording, self.kind)
            self.has_fields = has_fields(self.kind)
        except CrawlframeError as error:
            raise Damaged(str(error)) from None


class RecordingTest(pytest.Item):
    """A test of a recording."""

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"{self.path.parent.name}: {self.name}"


class BrokenRecording(RecordingTest):
    """A recording that cannot be replayed."""

    def __init__(self, *, problem: str, **given: Any) -> None:
        super().__init__(**given)
        self._problem = problem

    def runtest(self) -> None:
        raise Damaged(self._problem)


class PageTest(RecordingTest):
    """A page: its results equal the recorded ones."""

    def __init__(self, *, folder: _Folder, **given: Any) -> None:
        super().__init__(**given)
        self._folder = folder

    def runtest(self) -> None:
        from crawlframe.recorded.difference import differences

        recording, name = self._folder.recording, self.name
        replayed = self._folder.replay.run(name)
        before = recording.results[name]
        found = differences(before, replayed.snapshot, recording.head.ignore)
        if not found:
            return
        if replayed.error is not None:
            raise replayed.error
        if not self.config.getoption(UPDATE):
            page = recording.pages[name]
            lines = "\n".join(f"  {line}" for line in found)
            raise Different(
                f"{recording.head.spider}: {name} ({page.url}) does not lead to what was recorded:"
                f"\n{lines}\nIf that is right: pytest {UPDATE} {_shown(self.path.parent)}"
            )
        recording.results[name] = replayed.snapshot
        recording.write_result(name)
        self.user_properties.append((UPDATED, f"{recording.head.spider}: {name}"))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        from crawlframe.node.worker.verdict.failures import authors_trace
        from crawlframe.recorded.folder import RecordingError
        from crawlframe.recorded.replay import NotReplayed

        error = excinfo.value
        if isinstance(error, Different | NotReplayed | RecordingError):
            return str(error)
        page = self._folder.recording.pages[self.name]
        return f"{self.name} ({page.url}): its callback raised\n{authors_trace(error)}"


class FieldsTest(RecordingTest):
    """The items of all pages have the fields that the spider says they have."""

    def __init__(self, *, folder: _Folder, **given: Any) -> None:
        super().__init__(**given)
        self._folder = folder

    def runtest(self) -> None:
        from crawlframe.recorded.fields import problems

        recording, kind = self._folder.recording, self._folder.kind
        pages, unfit = [], []
        for name, page in recording.pages.items():
            replayed = self._folder.replay.run(name)
            pages.append((page.url, replayed.snapshot.get("items", [])))
            if isinstance(kind.item, type):
                plain = self._folder.replay.run(name, pipelines=False).snapshot
                unfit.append((page.url, plain.get("dropped", {})))
        if found := problems(kind, pages, unfit):
            lines = "\n".join(f"  {line}" for line in found)
            raise Different(f"{kind.name}: fields are not as the spider says:\n{lines}")


class RecordedSpider:
    """A recording, for assertions of one's own: ``pages`` are the names of its pages, and
    ``run(name)`` returns the Result that a page leads to with the code of today."""

    def __init__(self, folder: _Folder) -> None:
        self._folder = folder

    @property
    def pages(self) -> list[str]:
        return [*self._folder.recording.pages]

    def url(self, page: str) -> str:
        """The URL of a page; ``start:`` for ``start``."""
        return self._folder.recording.pages[page].url

    def run(self, page: str, *, pipelines: bool = True) -> Result:
        """Returns the result of a page. Raises errors of its callback, and NotReplayed."""
        __tracebackhide__ = True
        replayed: Replayed = self._folder.replay.run(page, pipelines=pipelines)
        if replayed.error is not None:
            raise replayed.error
        assert replayed.result is not None
        return replayed.result

    def items(self) -> list[Any]:
        """The items of all pages."""
        return [item for page in self.pages for item in self.run(page).items]


@pytest.fixture
def recorded(request: pytest.FixtureRequest) -> Any:
    """``recorded("shop")``: the recording of a spider, as a RecordedSpider."""
    config = request.config
    root = config.rootpath / str(config.getini("recorded"))

    def find(spider: str) -> RecordedSpider:
        __tracebackhide__ = True
        try:
            return RecordedSpider(_Folder(root / spider, config))
        except Damaged as error:
            problem = str(error)
        pytest.fail(problem, pytrace=False)

    return find


def _spiders(config: pytest.Config) -> Registry:
    """All spiders of the project, loaded once."""
    if _registry not in config.stash:
        from crawlframe.code.package import find_package
        from crawlframe.conf import Settings
        from crawlframe.load_spiders import load_spiders

        settings = Settings.from_env()
        if find_package(settings.spiders) is None:
            sys.path.insert(0, str(config.rootpath))
        config.stash[_registry] = load_spiders(settings, keep=True)
    return config.stash[_registry]


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
