"""The demo site over HTTP: errors, latency, counters, ports, and its end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from examples.demo_site import DemoServer, DemoSiteError, Pages

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with DemoServer(listings=200, error_rate=0.3) as server:
        yield server


@pytest.fixture
def session(demo: DemoServer) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.delete(f"{demo.url}/_stats")
        yield session


def test_pages_are_those_of_the_generator(demo: DemoServer, session: requests.Session) -> None:
    pages = Pages(demo.site)
    for target in ("/", "/search?city=berlin", "/list/mitte?page=1", "/listing/10003", "/nowhere"):
        answer = session.get(demo.url + target)
        if answer.status_code == 500:
            answer = session.get(demo.url + target)
        page = pages.answer(target)
        assert (answer.status_code, answer.content) == (page.status, page.body)
        assert answer.headers["Content-Type"] == page.content_type


def test_a_chosen_share_fails_at_the_first_try_only(
    demo: DemoServer, session: requests.Session
) -> None:
    targets = [f"/api/visits/{id}" for id in demo.site.ids()]
    first = [session.get(demo.url + target).status_code for target in targets]
    assert set(first) == {200, 500}
    assert 0.15 < first.count(500) / len(first) < 0.45
    assert all(session.get(demo.url + target).status_code == 200 for target in targets)
    stats = demo.stats()
    failed = first.count(500)
    assert stats["statuses"] == {"500": failed, "200": 2 * len(targets) - failed}
    session.delete(f"{demo.url}/_stats")
    assert [session.get(demo.url + target).status_code for target in targets] == first


def test_every_request_is_counted_by_path_and_query(
    demo: DemoServer, session: requests.Session
) -> None:
    for target in ("/list/mitte?page=1", "/list/mitte?page=2", "/list/mitte?page=1", "/none"):
        session.get(demo.url + target)
    session.head(f"{demo.url}/listing/10001")
    stats = demo.stats()
    assert stats["paths"] == {
        "/list/mitte?page=1": 2, "/list/mitte?page=2": 1, "/none": 1, "/listing/10001": 1,
    }  # fmt: skip
    assert stats["requests"] == 5
    session.delete(f"{demo.url}/_stats")
    assert demo.stats()["paths"] == {}


def test_a_head_request_has_no_body(demo: DemoServer, session: requests.Session) -> None:
    session.get(f"{demo.url}/info/terms")
    answer = session.head(f"{demo.url}/info/terms")
    assert answer.status_code == 200
    assert int(answer.headers["Content-Length"]) > 20_000
    assert answer.content == b""


def test_latency_lets_requests_overlap() -> None:
    with DemoServer(listings=20, latency=300, jitter=0) as demo, ThreadPoolExecutor(8) as threads:
        urls = [f"{demo.url}/listing/{id}" for id in demo.site.ids()][:8]
        assert [answer.status_code for answer in threads.map(requests.get, urls)] == [200] * 8
        assert 2 <= demo.stats()["in_flight_max"] <= 8


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "examples.demo_site", *words, "--listings=5"],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_port_in_use_is_named_with_the_fix() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run(f"--port={port}")
        with pytest.raises(DemoSiteError, match=f"port {port} .* in use.*--port"):
            DemoServer(listings=5, port=port).start()
    assert result.returncode == 1
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert f"port {port} on 127.0.0.1 is in use" in lines[0]
    assert "--port" in lines[0]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("--size=3", "size is 3; give 25 to 200"),
        ("--error-rate=7", "error rate is 7.0; give a share from 0 to 1"),
        ("--latency=-1", "latency is -1.0"),
        ("--port=70000", "port 70000"),
        ("--host=192.0.2.1", "192.0.2.1"),
    ],
)
def test_wrong_options_are_named(option: str, named: str) -> None:
    result = run(option)
    assert result.returncode == 1
    assert named in result.stderr
    assert "Traceback" not in result.stderr


def test_it_says_where_it_is_and_ends_on_ctrl_c() -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "examples.demo_site", "--listings=5", "--port=0"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split()[3]
        assert line == f"demo site on {url} (5 listings)\n"
        assert requests.get(f"{url}/listing/10001").status_code == 200
        process.send_signal(signal.SIGINT)
        rest, problems = process.communicate(timeout=30)
    assert process.returncode == 0
    assert (rest, problems) == ("", "")


def test_the_server_ends_with_its_block() -> None:
    with DemoServer(listings=5) as demo:
        assert requests.get(demo.url).status_code == 200
    with pytest.raises(requests.ConnectionError):
        requests.get(demo.url)
    demo.stop()


def test_the_server_dies_with_its_parent() -> None:
    code = (
        "import sys, time; from examples.demo_site import DemoServer\n"
        "with DemoServer(listings=5) as demo: print(demo.url, flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().strip()
        assert requests.get(url).status_code == 200
        os.kill(parent.pid, signal.SIGKILL)
    for _ in range(200):
        try:
            requests.get(url, timeout=5)
        except requests.ConnectionError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("the demo site outlived its parent by 10 seconds")
