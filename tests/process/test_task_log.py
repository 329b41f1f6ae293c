"""Logs and prints of a spider in a node, as the command shows them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable

import pytest

from tests.process.conftest import Look, OddWeb, wait_for

Manage = Callable[..., subprocess.CompletedProcess[str]]


pytestmark = pytest.mark.process


@pytest.mark.usefixtures("odd_env")
def test_the_log_of_a_task_has_what_its_spider_said(
    manage: Manage,
    start_manage: Callable[..., object],
    look: Look,
    web: OddWeb,
) -> None:
    web.pages = {"/": ["/a"]}
    node = start_manage("runcrawler", "--workers", 1)
    wait_for(lambda: "talking" in look.frontier.spiders.all())
    # As a process, which seals the password with the key of the node.
    done = manage("submit", "talking", "-a", f"url={web.url}", "-a", "password=very secret")
    assert done.returncode == 0, done.stderr
    task = 1
    followed = manage("task", "show", task, "--log", "--follow")
    look.wait(task)
    assert followed.returncode == 0, followed.stderr
    lines = followed.stdout.splitlines()
    firsts = [line.split(" ", 2)[2].rpartition("  [") for line in lines if line[:1].isdigit()]
    (worker,) = {last for _, _, last in firsts}  # the node and its only worker
    assert re.fullmatch(r"[^\s/]+/[0-9]+\]", worker)
    said = {line for line, _, _ in firsts}
    assert said == {
        "INFO    starting with ********  [start:]",
        f"INFO    printed 1 links  [{web.url}]",
        f"WARNING by the module  [{web.url}]",
        f"INFO    in a thread  [{web.url}a]",
        f"ERROR   cannot be read  [{web.url}a]",
    }
    assert lines[-1] == "    ValueError: no price"
    assert manage("task", "show", task, "--log").stdout == followed.stdout
    assert node.stop() == 0  # type: ignore[attr-defined]
