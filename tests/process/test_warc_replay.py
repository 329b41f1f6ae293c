"""A crawl of the demo site whose pages go into WARC segments, with kills in between: every page can
be read, and pywb replays the site without a missing page. `make judges` installs pywb and py-wacz;
without them, warcio judges alone."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.parse import urljoin

import pytest
from django.conf import settings

from crawlframe.warc.segment_writer import OPEN
from crawlservice.models import KeptPage, PageBody, PageSegment, Task
from crawlservice.pages.archived import archive
from crawlservice.pages.bodies import read
from crawlservice.pages.segments import NodeSegments
from crawlservice.tasks.submit import submit as submit_task
from examples.demo_site import DemoServer
from tests.conftest import CHECKOUT, Running
from tests.crawlservice.conftest import redis_at
from tests.process.conftest import LONGEST_WAIT, Look
from tests.warc.captures import judged

JUDGES = Path(os.environ.get("JUDGES") or CHECKOUT / "build/judges/bin")
LISTINGS = 40
HREF = re.compile(rb'href="([^"#]+)"')

pytestmark = pytest.mark.process


@pytest.fixture
def segments(manage_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the segments, for nodes, commands and this process."""
    place = tmp_path / "pages"
    manage_env["CRAWLFRAME_PAGES"] = str(place)
    monkeypatch.setattr(settings, "CRAWLFRAME", replace(settings.CRAWLFRAME, pages=str(place)))
    return place


@pytest.mark.databases("postgres")
def test_a_crawled_site_is_replayed(
    start_manage: Callable[..., Running],
    manage: Callable[..., subprocess.CompletedProcess[str]],
    manage_env: dict[str, str],
    look: Look,
    segments: Path,
    tmp_path: Path,
) -> None:
    manage_env["CRAWLFRAME_LEASE"], manage_env["CRAWLFRAME_BEAT"] = "3", "0.5"
    node = start_manage("runcrawler", "--node", "n", "--workers", 2)
    with DemoServer(listings=LISTINGS, error_rate=0.02) as demo:
        pk = _submit(manage_env, look, demo.url)
        for share in (4, 2):
            look.wait(pk, partial(_has_items, look, LISTINGS // share))
            os.killpg(node.process.pid, signal.SIGKILL)
            node = start_manage("runcrawler", "--node", "n", "--workers", 2)
        task = look.wait(pk)
    assert (task.state, task.ne) == ("finished", 0)
    # The root request has no page.
    assert KeptPage.objects.filter(task=pk).count() == task.nf - 1
    bodies = _all_bodies(pk)
    assert not PageBody.objects.filter(segment=None).exists()
    assert node.stop() == 0
    assert [*segments.glob(f"*{OPEN}")] == []
    here = archive()
    assert here is not None
    NodeSegments(here, settings.CRAWLFRAME.node).tick()  # as the steward of the next life does
    assert not PageSegment.objects.filter(state="open").exists()
    for path in segments.iterdir():
        judged(path)
    assert _all_bodies(pk) == bodies

    warc, wacz = tmp_path / "demo.warc.gz", tmp_path / "demo.wacz"
    for path in (warc, wacz):
        assert "pages written" in manage("page", "export", pk, "-o", path).stdout
    replayed = {
        record.rec_headers.get_header("WARC-Target-URI"): record.body
        for record in judged(warc)
        if record.rec_type == "response"
    }
    assert replayed.keys() >= {url for url, body in bodies.items() if body}
    if not (JUDGES / "wayback").exists():
        pytest.skip("make judges installs pywb and py-wacz")
    _run("wacz", "validate", "-f", str(wacz))
    with _pywb(tmp_path, warc) as fetch:
        crawled = set(bodies)
        for url, body in bodies.items():
            assert fetch(url) == (200, body)
            links = {urljoin(url, link.decode()) for link in HREF.findall(body)}
            for link in links & crawled:
                assert fetch(link)[0] == 200
        assert fetch(next(iter(bodies)) + "/not-crawled")[0] == 404


def _has_items(look: Look, number: int, task: Task) -> bool:
    return len(look.items(task.pk)) > number


def _submit(env: dict[str, str], look: Look, site: str) -> int:
    deadline = time.monotonic() + LONGEST_WAIT
    while "listings" not in look.frontier.spiders.all():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with redis_at(env["REDIS_URL"]):
        task = submit_task("listings", {"site": site}, from_text=True, settings={"keep": "all"})
    return task.pk


def _all_bodies(pk: int) -> dict[str, bytes]:
    rows = [*KeptPage.objects.filter(task=pk)]
    found = read({row.body_id for row in rows})
    return {row.url: found[row.body_id] for row in rows}


@contextmanager
def _pywb(folder: Path, warc: Path) -> Iterator[Callable[[str], tuple[int, bytes]]]:
    """Fetches a URL as it was archived, from a server that has the file."""
    _run("wb-manager", "init", "demo", cwd=folder)
    _run("wb-manager", "add", "demo", str(warc), cwd=folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [str(JUDGES / "wayback"), "-b", "127.0.0.1", "-p", str(port)]
    with (folder / "pywb.log").open("wb") as log:
        server = subprocess.Popen(arguments, cwd=folder, stdout=log, stderr=log)

    def fetch(url: str) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/demo/id_/{url}") as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    try:
        deadline = time.monotonic() + LONGEST_WAIT
        while True:
            try:
                fetch("http://nowhere.test/")
                break
            except OSError:
                assert server.poll() is None, (folder / "pywb.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield fetch
    finally:
        server.kill()
        server.wait()


def _run(program: str, *arguments: str, cwd: Path | None = None) -> None:
    done = subprocess.run(
        [JUDGES / program, *arguments], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
