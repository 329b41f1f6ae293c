"""A node that signs: every request it sends, with the keys and credentials of the moment."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import pytest

from crawlframe.base.urls import host_of
from crawlservice.models import BotKey
from tests.conftest import Running
from tests.process.conftest import Answer, Look, SmallSite, Submit, wait_for

pytestmark = pytest.mark.process

PAGES = 200
SECRET = "MARKED-s3cret"


class Site(SmallSite):
    """Remembers its requests. ``/`` links to ``/hop/N``, which redirect to ``/page/N``."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.latency = 0.5  # seconds: the crawl must not end before the commands
        super().__init__()

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        self.asked.append((asked.path, dict(asked.headers.items())))
        time.sleep(self.latency)
        if asked.path.startswith("/hop/"):
            return 302, {"Location": asked.path.replace("hop", "page")}, b""
        links = "".join(f'<a href="/hop/{n}">' for n in range(PAGES))
        return 200, {}, links.encode() if asked.path == "/" else b""

    def keys(self, since: int = 0) -> list[str]:
        """The names of the keys with which requests were signed."""
        found = [re.search(r'keyid="([^"]+)"', h["Signature-Input"]) for _, h in self.asked[since:]]
        return [one[1] for one in found if one]


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    yield made
    made.close()


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


def test_a_node_signs_and_follows_what_changes(
    odd_env: dict[str, str],
    manage: Callable[..., subprocess.CompletedProcess[str]],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    site: Site,
) -> None:
    odd_env["CRAWLFRAME_BOT_AUTH"] = "https://bot.example"
    refused = manage("runcrawler", "--once")
    assert refused.returncode != 0
    assert "there is no key" in refused.stderr
    assert manage("credential", "create-key").returncode == 0
    node = start_manage("runcrawler", "--workers", 2, "--concurrency", 4)
    pk = submit("odd", url=site.url)
    wait_for(lambda: len(site.asked) > 20)
    first = BotKey.objects.get().name
    assert set(site.keys()) == {first}
    assert manage("credential", "rotate-key", "--now").returncode == 0
    second = BotKey.objects.latest("pk").name
    given = ("credential", "set", host_of(site.url), "--user", "ann", "--http")
    assert manage(*given, input=f"{SECRET}\n").returncode == 0
    wait_for(lambda: "Authorization" in site.asked[-1][1])
    wait_for(lambda: site.keys()[-1] == second)
    site.latency = 0.0
    task = look.wait(pk)
    assert (task.ne, task.nf) == (0, PAGES + 2)
    assert node.stop() == 0
    assert set(site.keys()) == {first, second}
    assert len(site.keys()) == len(site.asked)  # pages and the hops to them
    signed = [headers["Signature-Input"] for _, headers in site.asked]
    assert len({re.findall(r'nonce="([^"]+)"', text)[0] for text in signed}) == len(signed)
    assert SECRET not in node.output
