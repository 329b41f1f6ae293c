"""Recorded pages before a version goes live: failures are refused, crashes harm nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from crawlframe.code.registry import Registry
from crawlframe.recorded.record import make
from crawlframe.recorded.recorder import Recorder
from tests.imports import undone
from tests.process.conftest import OddWeb
from tests.process.reload_project import WORDS, NodeStarter, Project, of_words, shop
from tests.recorded.site import SETTINGS

pytestmark = pytest.mark.process


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.write("shops/checked.py", of_words("checked", '"check": "recorded"'))
    project.write("shops/words.py", WORDS)
    return project


def test_a_version_goes_live_only_if_its_recorded_pages_pass(
    odd_env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    with undone("shops"):
        kind = Registry.load(project.package).get("checked")
        visits = Recorder(kind, {"url": web.url}, SETTINGS, pause=0).run(2)
        folder = project.root / "tests" / "recorded" / "checked"
        recording = make(folder, kind, {"url": web.url}, visits, SETTINGS).recording
        recording.write()
    assert list(recording.pages) == ["start", "index"]
    project.commit()
    env = project.env(odd_env, CRAWLFRAME_CHECK_TIMEOUT="4")
    node = starter.node(env)
    node.ready()
    web.hits.clear()

    # A changed import makes another item.
    project.write("shops/words.py", WORDS.replace("right", "wrong"))
    problem = node.refused("spider checked: recorded page index").problem
    assert f"({web.url}): items[0].code: 'right' → 'wrong'" in problem
    assert "items[0].code: 'right' → 'wrong'" in node.running.output
    assert node.crawl(f"{web.url}one", "checked") == "right"

    # So does another spider, which is not checked; it goes live with the sound version.
    project.write("shops/shop.py", shop("second"))
    project.write("shops/words.py", WORDS)
    node.renewed(1)
    assert node.crawl(f"{web.url}two") == "second"

    # Its callback kills the process, or hangs. Others: tests/recorded, tests/node.
    for line, told in (
        ("os.kill(os.getpid(), 9)", "page index ended the process that replays it (SIGKILL)"),
        (
            "import subprocess, time; subprocess.Popen(['sleep', '98765']); time.sleep(99)",
            "recorded page index took longer than 4 s",
        ),
    ):
        project.write("shops/checked.py", of_words("checked", '"check": "recorded"', line))
        node.refused(told)
        assert node.crawl(f"{web.url}{abs(hash(line))}", "checked") == "right"
    assert sum(web.hits.values()) == 4  # those crawls: nothing was fetched for a check

    left = [
        one for one in psutil.process_iter(["cmdline"]) if "98765" in (one.info["cmdline"] or ())
    ]
    assert left == []  # the processes it had started are gone with it

    # The recorded result is the right one by now.
    recording.results["index"]["items"][0]["code"] = "wrong"
    recording.write_result("index")
    project.write("shops/words.py", WORDS.replace("right", "wrong"))
    project.write("shops/checked.py", of_words("checked", '"check": "recorded"'))
    node.renewed(2)
    assert node.crawl(f"{web.url}three", "checked") == "wrong"
    assert node.look.frontier.audit() == []
