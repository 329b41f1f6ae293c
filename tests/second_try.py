"""Second try: a test with processes, a browser or connections that failed is run again, alone,
after all others. A test that passes then is flaky: a defect of its own, listed in the last lines of
the run with its first failure. The run fails all the same, unless ``flaky.toml`` lists the test
with a date and a reason. ``-p no:second_try`` switches it off."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter

from tests import quick

NAME = "second_try"
LIST = Path(__file__).with_name("flaky.toml")
PLACES = (
    "tests/browser/", "tests/fetch/", "tests/files/", "tests/process/", "tests/scrapy_projects/",
)  # fmt: skip
EVERY = "*"  # in the list: all tests
MARK = "process"
MAX_FAILURES = 20  # failures; with more, it is not the machine that was busy
TEST_TIMEOUT = 900  # seconds for one test with its servers
LAST_LINES = 40


def register(config: pytest.Config) -> None:
    """For conftest.py. xdist's workers decide nothing, and a run that stops at the first failure
    has no second try, nor has one of quick tests, which start no process."""
    here = not hasattr(config, "workerinput")
    if here and not config.getoption("maxfail") and not quick.only(config):
        config.pluginmanager.register(SecondTry(config), NAME)


class SecondTry:
    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._failed: dict[str, list[pytest.TestReport]] = {}  # by node id
        self._flaky: dict[str, list[pytest.TestReport]] = {}
        self._known = _known_flaky()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and _depends_on_the_machine(report):
            self._failed.setdefault(_without_group(report.nodeid), []).append(report)

    @pytest.hookimpl(trylast=True)  # after xdist has ended its workers
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not self._failed:
            return
        if len(self._failed) > MAX_FAILURES:
            self._say(f"{len(self._failed)} tests of this kind failed: too many to try again")
            return
        self._say(f"trying {len(self._failed)} failed tests again, alone")
        for name, reports in self._failed.items():
            problem = self._try_again(name)
            self._say(f"{name} {'failed again' if problem else 'passed'}")
            if problem:
                self._say(problem)
            else:
                self._flaky[name] = reports
        tolerated = sum(len(self._flaky[name]) for name in self._flaky.keys() - self._unlisted)
        if tolerated == session.testsfailed:
            session.exitstatus = pytest.ExitCode.OK
        self._move_reports()

    def pytest_unconfigure(self) -> None:
        """After the summary, so that these are the last lines."""
        terminal = self._reporter
        if not self._flaky or terminal is None:
            return
        terminal.section("flaky: failed, then passed when run again alone", yellow=True)
        for name, reports in self._flaky.items():
            for report in reports:
                terminal.write_line("")
                terminal.write_line(f"{name}, first failure ({report.when}):", yellow=True)
                terminal.write_line(report.longreprtext)
        terminal.write_line("")
        for name, reports in self._flaky.items():
            terminal.write_line(f"FLAKY {name} - {_in_a_line(reports[0])}", yellow=True)
        if self._unlisted:
            terminal.write_line(
                f"this run fails for {len(self._unlisted)} that tests/{LIST.name} does not list; "
                "mend it, or list it with the date and the reason",
                red=True,
            )

    @property
    def _unlisted(self) -> set[str]:
        if EVERY in self._known:
            return set()
        return {name for name in self._flaky if name.partition("[")[0] not in self._known}

    def _try_again(self, name: str) -> str:
        """The reason of the failure; "" if it passed."""
        options = (
            "-n0",
            "-q",
            "--no-header",
            "-m",
            "",
            "-p",
            f"no:{NAME}",
            "-p",
            "no:cacheprovider",
        )
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, name],
                cwd=self._config.rootpath,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TEST_TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return f"it took longer than {TEST_TIMEOUT} s"
        lines = done.stdout.rstrip().splitlines()[-LAST_LINES:]
        return "\n".join(lines or [f"exit code {done.returncode}"]) if done.returncode else ""

    def _move_reports(self) -> None:
        """Makes the summary count flaky tests as such, not as failures."""
        stats = self._reporter.stats if self._reporter else {}
        flaky = [report for reports in self._flaky.values() for report in reports]
        for kind in ("failed", "error"):
            kept = [report for report in stats.pop(kind, []) if report not in flaky]
            if kept:
                stats[kind] = kept
        if flaky:
            stats["flaky"] = flaky

    @property
    def _reporter(self) -> TerminalReporter | None:
        found: TerminalReporter | None = self._config.pluginmanager.get_plugin("terminalreporter")
        return found

    def _say(self, text: str) -> None:
        if self._reporter is not None:
            self._reporter.write_line(f"\n{text}")


def _known_flaky() -> set[str]:
    """The names in the list. Raises pytest.UsageError for an entry without a date or a reason."""
    entries = tomllib.loads(LIST.read_text())
    for name, entry in entries.items():
        if not isinstance(entry.get("since"), date) or not entry.get("reason"):
            raise pytest.UsageError(f"{LIST.name}: {name} needs since, a date, and reason, a text")
    return {*entries}


def _depends_on_the_machine(report: pytest.TestReport) -> bool:
    # A report of a worker that died has no keywords.
    return MARK in report.keywords or report.nodeid.startswith(PLACES)


def _without_group(name: str) -> str:
    """The node id without the group that xdist appends."""
    return re.sub(r"@[^\[\]@]*$", "", name)


def _in_a_line(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash:
        return str(crash.message).partition("\n")[0]
    return report.longreprtext.strip().rpartition("\n")[2]
