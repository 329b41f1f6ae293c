"""up: web, node and embedded Redis, from a fresh checkout."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess

import pytest
import requests

from crawlframe.errors import ConfigError
from crawlservice.management.commands.up import listen

pytestmark = pytest.mark.process


@pytest.fixture
def up(start_manage, manage_env):
    """Starts ``up`` on a free port, with nothing configured; the process and its address."""
    del manage_env["REDIS_URL"]
    manage_env["CRAWLFRAME_BIND"] = "127.0.0.1:0"

    def start(*arguments):
        running = start_manage("up", "--workers", "1", *arguments)
        running.wait_for("Ctrl-C stops everything.")
        found = re.search(r"http://\S+/", running.output)
        assert found
        return running, found[0]

    return start


def children(pid: int) -> dict[str, int]:
    """Command line -> pid of the direct children."""
    listing = subprocess.run(["ps", "-wwAo", "pid=,ppid=,args="], capture_output=True, text=True)
    rows = [line.split(maxsplit=2) for line in listing.stdout.splitlines()]
    return {command: int(number) for number, parent, command in rows if int(parent) == pid}


def child(running, word: str) -> int:
    return next(pid for name, pid in children(running.process.pid).items() if word in name)


def test_it_serves_until_it_is_interrupted(up):
    running, url = up()
    assert set(requests.get(f"{url}healthz", timeout=30).json().values()) == {True}
    login = requests.get(f"{url}admin/", timeout=30)
    assert login.url.startswith(f"{url}admin/login/")
    style = re.search(r'href="(/static/unfold/css/styles[^"]*)"', login.text)
    assert style
    assert "text/css" in requests.get(url + style[1][1:], timeout=30).headers["Content-Type"]
    assert requests.get(url, headers={"Host": "evil.example"}, timeout=30).status_code == 400
    link = re.search(
        rf"Create the first administrator: ({re.escape(url)}setup/\S+)", running.output
    )
    assert link
    assert requests.get(link[1], timeout=30).status_code == 200

    running.wait_for("node |")
    assert f"web  | The web listens at {url.rstrip('/')}" in running.output
    assert running.stop(signal.SIGINT) == 0
    assert "Traceback" not in running.output


def test_if_one_part_dies_all_stop_and_it_is_named(up):
    running, url = up()
    requests.get(url, timeout=30)
    os.kill(child(running, "runcrawler"), signal.SIGKILL)
    assert running.process.wait(60) == 1
    assert "node was killed by signal 9; everything was stopped" in running.output
    with pytest.raises(requests.ConnectionError):
        requests.get(url, timeout=5)


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is in use") as raised:
            listen(f"127.0.0.1:{port}")
    told = str(raised.value)
    assert "--bind 127.0.0.1:8001" in told
    assert "\n" not in told


@pytest.mark.parametrize("bind", ["nonsense", "127.0.0.1:", "127.0.0.1:99999", "203.0.113.1:8000"])
def test_a_bad_address_is_named(bind):
    with pytest.raises(ConfigError) as raised:
        listen(bind)
    told = str(raised.value)
    assert bind.partition(":")[0] in told
    assert "\n" not in told
    if bind.endswith(":8000"):
        assert "203.0.113.1 is not an address of this machine; give one of its addresses" in told
