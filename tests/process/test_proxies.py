"""A pool of real proxies, some dead or banned, used by two nodes, by the origin's log."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from django.conf import settings

from crawlservice.models import Proxy, ProxySource
from crawlservice.proxies.pool import missing
from crawlservice.security.sealing import seal
from tests.conftest import Running
from tests.process.conftest import Answer, Look, SmallSite, Submit, early, wait_for
from tests.process.reload_project import NodeStarter, Project
from tests.process.spiders.proxied import DELAY
from tests.proxy_server import ProxyServer, running

pytestmark = pytest.mark.process
HOSTS, EACH = 5, 40
SECRET = "sesame-open"


class Origin(SmallSite):
    """``banned``: (host, source) pairs that get a 403; of each of the hosts in ``strict``, the
    first source to come three times is banned. ``pages``: answers other than the source."""

    def __init__(self) -> None:
        self.arrivals: dict[tuple[str, str], list[float]] = defaultdict(list)
        self.refused: list[tuple[str, str, float]] = []
        self.banned: set[tuple[str, str]] = set()
        self.strict: set[str] = set()
        self.pages: dict[str, str] = {}
        self._lock = threading.Lock()
        super().__init__()

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        host, source = asked.headers["Host"].partition(".")[0], asked.client_address[0]
        banned = (host, source) in self.banned
        with self._lock:
            self.arrivals[host, source].append(time.monotonic())
            if host in self.strict and len(self.arrivals[host, source]) == 3:
                self.strict.remove(host)
                self.banned.add((host, source))
            if banned:
                self.refused.append((host, source, time.monotonic()))
        body = self.pages.get(asked.path, source).encode()
        return 403 if banned else 200, {"Content-Type": "text/plain"}, body


@pytest.fixture
def origin() -> Iterator[Origin]:
    found = Origin()
    yield found
    found.close()


@pytest.fixture
def proxies() -> Iterator[list[ProxyServer]]:
    """Ten proxies; the last three can die: they take requests and close the connection."""
    found = [
        ProxyServer(
            "socks5" if number in (3, 6) else "http",
            f"user{number}:{SECRET}",
            source=f"127.0.1.{number}",
        )
        for number in range(1, 11)
    ]
    with running(*found):
        yield found


def check_intervals(origin: Origin, delay: float) -> None:
    for pair, times in origin.arrivals.items():
        assert not pair[0].startswith("h") or early(times, delay) == [], pair


def test_a_pool_over_two_nodes(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    origin: Origin,
    proxies: list[ProxyServer],
    tmp_path: Path,
) -> None:
    odd_env["CRAWLFRAME_ALLOW_PRIVATE"] = "127.0.0.0/8 ::1/128"
    odd_env["CRAWLFRAME_PROXY_ECHO"] = f"http://echo.localhost:{origin.port}/"
    banned = ("h0", "127.0.1.1")
    origin.banned.add(banned)
    listed = tmp_path / "proxies.txt"
    listed.write_text("# bought\n" + "\n".join(proxy.line for proxy in proxies))
    assert start_manage("proxy", "import", listed, "--tag", "eu").process.wait(60) == 0
    nodes = [start_manage("runcrawler", "--node", f"node{n}", "--workers", 1) for n in range(3)]
    wait_for(lambda: len(look.frontier.leases.nodes()) == 3)
    wait_for(lambda: Proxy.objects.filter(state=Proxy.State.WORKING).count() == len(proxies))
    for proxy in proxies[7:]:
        proxy.dead = True
    pk = submit("proxied", port=origin.port, hosts=HOSTS, each=EACH)
    wait_for(lambda: look.counts(pk).nf > HOSTS * EACH / 4)
    nodes.pop().process.kill()
    task = look.wait(pk)
    assert (task.nf, task.ne) == (HOSTS * EACH + 1, 0)
    for node in nodes:
        assert node.stop() == 0

    check_intervals(origin, DELAY)
    sources = {source for host, source in origin.arrivals if host != "echo"}
    assert sources == {proxy.source for proxy in proxies[:7]}
    # Blocked at one host only, and not asked there again by any node.
    assert [refused[:2] for refused in origin.refused] == [banned]
    assert len(origin.arrivals["h1", banned[1]]) > 1
    for proxy in proxies[7:]:
        assert 1 <= proxy.uses["dead"] <= 3
    failed = Proxy.objects.filter(state=Proxy.State.FAILED)
    assert {row.url for row in failed} == {proxy.url for proxy in proxies[7:]}
    for log in tmp_path.glob("manage*.log"):
        text = log.read_text()
        assert SECRET not in text
        assert "user1" not in text
    rows = str([*Proxy.objects.values()]) + str(look.items(pk))
    assert SECRET not in rows
    assert SECRET not in str(look.frontier.store.redis.hgetall("cf:{0}:pool"))


WALKER = """
from crawlframe import Proxy, Request, Spider

CODE = "{code}"


class Lists(Spider):
    name = "lists"
    settings = {{"robots": False}}

    def start(self, url: str):
        yield Request(url)

    def parse(self, response):
        for line in response.text.split("\\n"):
            tier, proxy = line.split()
            yield Proxy(proxy, tier=int(tier))


class Walker(Spider):
    name = "walker"
    settings = {{"proxy": "pool", "delay": 0.3, "robots": False, "timeout": 20}}

    def start(self, port: int, steps: int):
        for n in range(steps):
            yield Request(f"http://h0.localhost:{{port}}/plain/{{n}}")
        for way in ("h1/a", "h1/b", "h2/c"):
            host, _, name = way.partition("/")
            yield Request(f"http://{{host}}.localhost:{{port}}/{{name}}/0", session=name)

    def parse(self, response):
        place, name, step = response.url.rsplit("/", 2)
        step = int(step)
        yield {{"way": name, "step": step, "source": response.text, "code": CODE}}
        if name != "plain" and step + 1 < {steps}:
            yield Request(f"{{place}}/{{name}}/{{step + 1}}", session=name)
"""
STEPS = 24


def test_a_list_tiers_and_sessions_on_two_nodes_that_reload(
    odd_env: dict[str, str],
    starter: NodeStarter,
    submit: Submit,
    look: Look,
    origin: Origin,
    proxies: list[ProxyServer],
    tmp_path: Path,
) -> None:
    """The pool is made by a spider. At h0 the cheap proxies are banned, at h2 one is at its third
    request."""
    odd_env["CRAWLFRAME_ALLOW_PRIVATE"] = "127.0.0.0/8 ::1/128"
    odd_env["CRAWLFRAME_PROXY_ECHO"] = f"http://echo.localhost:{origin.port}/"
    odd_env["CRAWLFRAME_SECRET_KEY"] = settings.SECRET_KEY  # seals the list's arguments
    tiers = [proxies[:3], proxies[3:6]]
    cheap, dear = ({one.source for one in some} for some in tiers)
    lines = [f"{tier} {one.line}" for tier, some in enumerate(tiers) for one in some]
    origin.pages["/list"] = "\n".join(lines)
    origin.banned |= {("h0", source) for source in cheap}
    origin.strict.add("h2")
    project = Project.make(tmp_path / "project", git=False)
    project.write("shops/walker.py", WALKER.format(code="first", steps=STEPS))
    env = project.env(odd_env, CRAWLFRAME_GRACE="20")
    nodes = [starter.node(env, name=name) for name in ("one", "two")]
    for node in nodes:
        node.ready()
    pk = submit("walker", port=origin.port, steps=STEPS)
    wait_for(lambda: [one.cause for one in missing(look.frontier)][:1] == ["empty"])
    place = json.dumps({"url": f"http://lists.localhost:{origin.port}/list"})
    source = ProxySource.objects.create(name="l", spider="lists", sealed_place=seal(place))
    look.wait(pk, lambda task: look.counts(pk).nf > STEPS)
    assert not look.task(pk).finished_at
    project.write("shops/walker.py", WALKER.format(code="second", steps=STEPS))
    task = look.wait(pk)
    assert (task.nf, task.ne) == (4 * STEPS + 1, 0)
    for node in nodes:
        assert node.code.reloads == 1
    check_intervals(origin, 0.3)
    found: dict[str, list[str]] = defaultdict(list)
    items = sorted(look.items(pk), key=lambda item: int(item["step"]))
    for item in items:
        found[item["way"]].append(item["source"])
    assert {way: len(some) for way, some in found.items()} == dict.fromkeys(
        ("plain", "a", "b", "c"), STEPS
    )
    assert {item["code"] for item in items} == {"first", "second"}
    # The tier that works, learned by both nodes from one block of each proxy.
    assert {*found["plain"]} == dear
    refused = Counter(one[:2] for one in origin.refused)
    assert {pair: n for pair, n in refused.items() if pair[0] == "h0"} == {
        ("h0", one): 1 for one in cheap
    }
    # A session stays with its proxy, whatever node sends it, until that is blocked.
    for way in ("a", "b"):
        assert len({*found[way]}) == 1
        assert {*found[way]} < cheap
    before, after = found["c"][0], found["c"][-1]
    assert found["c"] == [before] * 3 + [after] * (STEPS - 3)
    assert {before, after} < cheap
    source.refresh_from_db()
    assert (source.found, source.problem) == (6, "")
    assert source.run
    rows = {row.url: (row.tier, row.state) for row in Proxy.objects.all()}
    assert rows == {
        one.url: (tier, Proxy.State.WORKING) for tier, some in enumerate(tiers) for one in some
    }
