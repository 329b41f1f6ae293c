"""The browser of a node: one for all workers, and nothing is lost or left when it dies."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from crawlframe.fetch.browser.settings import PROGRAMS
from crawlframe.files.store import path_of
from crawlservice.models import PageFile
from tests.conftest import Running
from tests.process.conftest import LONGEST_WAIT, Look, OddWeb, Submit
from tests.process.reload_project import NodeStarter, Project, shop

pytestmark = pytest.mark.process

PAGES = 32
ABOVE = {
    "chromium": ("host", "keeper"),
    "driver": ("host", "keeper"),
    "host": ("keeper",),
    "keeper": (),
}


@pytest.fixture(autouse=True)
def _browser(odd_env: dict[str, str]) -> None:
    odd_env["CRAWLFRAME_BROWSER_PAGES"] = "8"
    pytest.importorskip("playwright.async_api", reason="no playwright here")
    if not any(map(shutil.which, PROGRAMS)):
        pytest.skip("no Chromium here")


def family(master: psutil.Process) -> dict[str, psutil.Process]:
    """The processes of the browser: ``chromium``, Playwright's ``driver``, the ``host`` and its
    ``keeper``."""
    found = {}
    for process in master.children(recursive=True):
        with suppress(psutil.Error):
            line = process.cmdline()
            if "--remote-debugging-pipe" in line and not any("--type=" in word for word in line):
                found["chromium"] = process
    if not found:
        return {}
    try:
        found["driver"] = _child_of(master, found["chromium"], 3)
        found["host"] = _child_of(master, found["chromium"], 2)
        found["keeper"] = _child_of(master, found["chromium"], 1)
    except (psutil.Error, IndexError):
        return {}
    return found


def _child_of(master: psutil.Process, process: psutil.Process, depth: int) -> psutil.Process:
    """The ancestor of a process that is so far below the master."""
    line = [process, *process.parents()]
    return line[line.index(master) - depth]


def rendering(master: psutil.Process) -> dict[str, psutil.Process]:
    """The same, once they run."""
    until = time.monotonic() + LONGEST_WAIT
    while not (found := family(master)):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def all_of(found: dict[str, psutil.Process]) -> list[psutil.Process]:
    """The processes, with all processes that they have started."""
    members = list(found.values())
    with suppress(psutil.Error):
        members += found["keeper"].children(recursive=True)
    return members


def test_kills_of_any_of_its_processes_lose_nothing(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
) -> None:
    web.pages["/"] = [f"/page/{n}" for n in range(PAGES)]
    web.latency = 0.3
    node = start_manage("runcrawler", "--node", "one", "--workers", 2)
    master = psutil.Process(node.process.pid)
    pk = submit("rendered", url=web.url)
    for number, who in enumerate(("chromium", "driver", "host", "keeper"), 1):
        look.wait(pk, lambda task, n=number: look.counts(pk).nf > 5 * n)  # type: ignore[misc]
        found = rendering(master)
        members = all_of(found)
        found[who].kill()
        # Those above it live on, and start others.
        above = {one for name, one in found.items() if name in ABOVE[who]}
        _, alive = psutil.wait_procs({*members} - above, timeout=LONGEST_WAIT)
        assert not alive, (who, alive)
    # Nothing outlives a master that is killed, or stopped.
    look.wait(pk, lambda task: look.counts(pk).nf > 25)
    members = all_of(rendering(master))
    node.stop(signal.SIGKILL)
    _, alive = psutil.wait_procs(members, timeout=LONGEST_WAIT)
    assert not alive
    heir = start_manage("runcrawler", "--node", "heir", "--workers", 1)
    task = look.wait(pk)
    assert {page.url: page.detail for page in look.pages(pk).values() if page.reason} == {}
    assert (task.state, task.nf, task.ne) == ("finished", PAGES + 2, 0)
    items = look.items(pk)
    assert len({item["url"] for item in items}) == len(items) == PAGES + 1
    assert all(item["rendered"] for item in items)
    members = all_of(rendering(psutil.Process(heir.process.pid)))
    assert heir.stop() == 0
    _, alive = psutil.wait_procs(members, timeout=LONGEST_WAIT)
    assert not alive


def test_a_hot_reload_keeps_the_browser_and_loses_no_page(
    odd_env: dict[str, str], starter: NodeStarter, look: Look, web: OddWeb, tmp_path: Path
) -> None:
    project = Project.make(tmp_path / "project", git=False)

    def rendered(code: str) -> str:
        source = shop(code).replace('"delay": 0', '"delay": 0, "downloader": "browser"')
        return source.replace('"concurrency": 32', '"concurrency": 4')

    project.write("shops/shop.py", rendered("first"))
    web.pages["/"] = [f"/page/{n}" for n in range(24)]
    web.latency = 0.6
    node = starter.node(project.env(odd_env, CRAWLFRAME_GRACE="20", CRAWLFRAME_CONCURRENCY="4"))
    node.ready()
    pk = node.start(web.url)
    look.wait(pk, lambda task: look.counts(pk).nf > 5)
    master = psutil.Process(node.running.process.pid)
    before = rendering(master)["chromium"]
    project.write("shops/shop.py", rendered("second"))
    task = look.wait(pk)
    assert (task.state, task.nf, task.ne) == ("finished", 26, 0)
    codes = [item["code"] for item in look.items(pk)]
    assert {*codes} == {"first", "second"}
    assert len(codes) == 25
    assert rendering(master)["chromium"] == before


def test_callbacks_use_pages_and_nothing_is_lost_when_anything_dies(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    web: OddWeb,
    tmp_path: Path,
) -> None:
    odd_env["CRAWLFRAME_BROWSER_PAGES"] = "3"  # all of them are held
    odd_env["CRAWLFRAME_FILES"] = str(tmp_path / "files")
    hold = tmp_path / "hold"
    hold.touch()

    def holders() -> set[int]:
        """The workers whose callbacks hold the three pages now. Forgets earlier reports."""
        until = time.monotonic() + LONGEST_WAIT
        while len({path.suffixes[0] for path in tmp_path.glob("hold.*")}) < 3:
            assert time.monotonic() < until
            time.sleep(0.05)
        found = [*tmp_path.glob("hold.*")]
        for path in found:
            path.unlink()
        return {int(path.suffix[1:]) for path in found}

    node = start_manage("runcrawler", "--node", "one", "--workers", 1)
    pk = submit("live", url=web.url, pages=3, hold=hold)
    (worker,) = holders()
    psutil.Process(worker).kill()
    holders()
    rendering(psutil.Process(node.process.pid))["chromium"].kill()
    holders()
    assert node.stop() == 0  # a callback that waits does not hold it back
    start_manage("runcrawler", "--node", "two", "--workers", 1)
    holders()
    hold.unlink()
    task = look.wait(pk)
    assert (task.state, task.nf, task.ne) == ("finished", 4, 1)
    assert sorted(item["url"] for item in look.items(pk)) == [
        f"{web.url}page/{n}" for n in range(3)
    ]
    assert {item["title"] for item in look.items(pk)} == {"written"}
    pictures = PageFile.objects.filter(task=pk).select_related("file")
    pages = {page.rid: url for url, page in look.pages(pk).items()}
    assert sorted((pages[one.rid].rpartition("/")[2], one.kind) for one in pictures) == [
        *((str(n), "screenshot") for n in range(3)),
        ("fails", "failure"),
    ]
    assert all((tmp_path / "files" / path_of(one.file_id)).exists() for one in pictures)
