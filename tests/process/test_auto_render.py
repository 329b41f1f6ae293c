"""``render = "auto"`` on nodes: pages fetched twice end once, and nodes share their knowledge."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import psutil
import pytest

from crawlframe.fetch.browser.settings import PROGRAMS
from crawlframe.render.knowledge import STREAK, URLTemplate
from crawlservice.tasks.progress.stats import of_tasks
from tests.conftest import Running
from tests.process.conftest import Answer, Look, SmallSite, Submit

pytestmark = pytest.mark.process

EACH = STREAK + 2  # pages of each kind
WHOLE = "<h1>{name}</h1><b>7</b><a class=more href=/more{path}>more</a>"
BY_SCRIPT = '<div id=app></div><script>app.outerHTML = "{whole}"</script>'
HALF = "<h1>{name}</h1><p id=price></p><script>price.outerHTML = '<b>8</b>'</script>"


class Shop(SmallSite):
    """A site whose pages at /script/ and /half/ need a browser, which sends Sec-Fetch-Mode."""

    def __init__(self) -> None:
        self.pages: list[str] = []  # that the first one links to
        self.plain: Counter[str] = Counter()
        self.rendered: Counter[str] = Counter()
        self.latency = 0.0  # seconds
        self._lock = threading.Lock()
        super().__init__()

    def answer(self, asked: BaseHTTPRequestHandler) -> Answer:
        with self._lock:
            by_browser = "Sec-Fetch-Mode" in asked.headers
            (self.rendered if by_browser else self.plain)[asked.path] += 1
        time.sleep(self.latency)
        return 200, {}, self.body_of(asked.path).encode()

    def body_of(self, path: str) -> str:
        if path == "/":
            return "".join(f"<a href={page}>x</a>" for page in self.pages)
        whole = WHOLE.format(name=path, path=path)
        if path.startswith("/script/"):
            return BY_SCRIPT.format(whole=whole)
        if path.startswith("/half/"):
            return HALF.format(name=path)
        return f"<h1>{path}</h1><b>9</b>" if path.startswith("/more/") else whole


@pytest.fixture
def shop() -> Iterator[Shop]:
    shop = Shop()
    yield shop
    shop.close()


@pytest.fixture(autouse=True)
def _browser(odd_env: dict[str, str]) -> None:
    odd_env["CRAWLFRAME_BROWSER_PAGES"] = "4"
    pytest.importorskip("playwright.async_api", reason="no playwright here")
    if not any(map(shutil.which, PROGRAMS)):
        pytest.skip("no Chromium here")


def parsed(pk: int) -> int:
    """The callbacks that counted."""
    return of_tasks([pk])[pk].counters["parsed"]


def paths_of(look: Look, pk: int) -> list[str]:
    """The paths of the pages that gave the items."""
    return sorted("/" + item["url"].split("/", 3)[3] for item in look.items(pk))


def test_only_what_needs_it_is_rendered_and_all_nodes_know(
    odd_env: dict[str, str],
    start_manage: Callable[..., Running],
    submit: Submit,
    look: Look,
    shop: Shop,
) -> None:
    """Kills between the two fetches lose nothing, and double nothing."""
    kinds = ("static", "script", "half")
    shop.pages = [f"/{kind}/{n}" for kind in kinds for n in range(EACH)]
    one = start_manage("runcrawler", "--node", "one", "--workers", 2)
    pk = submit("chosen", url=shop.url)
    task = look.wait(pk)
    more = [f"/more/{kind}/{n}" for kind in ("static", "script") for n in range(EACH)]
    assert (task.state, task.nf, task.ne) == ("finished", 2 + 5 * EACH, 0)
    assert paths_of(look, pk) == sorted(shop.pages + more)
    assert {item["price"] for item in look.items(pk)} == {"7", "8", "9"}
    assert parsed(pk) == 5 * EACH  # and not once more for each that was rendered
    assert len(look.pages(pk)) == 2 + 5 * EACH
    by = {kind: sum(shop.rendered[f"/{kind}/{n}"] for n in range(EACH)) for kind in kinds}
    assert by == {"static": 0, "script": EACH, "half": EACH}
    assert sum(count for path, count in shop.rendered.items() if path.startswith("/more")) == 0
    assert max(shop.rendered.values()) == max(shop.plain.values()) == 1
    form = URLTemplate("parse", f"{shop.url.split('/')[2]}/script/*")
    known = look.frontier.renders.of("chosen")[form]
    assert known.static == 0
    assert known.browser == EACH
    assert known.streak >= STREAK

    # Each page has a template of its own, so that each is fetched twice.
    shop.pages = [f"/half/{chr(97 + n // 26)}{chr(97 + n % 26)}/x" for n in range(16)]
    shop.latency = 0.1
    pk, between = submit("chosen", url=shop.url), 0
    for ended in (3, 7):
        look.wait(pk, lambda task, n=ended: look.counts(pk).nf > n)  # type: ignore[misc]
        master = psutil.Process(one.process.pid)
        victims = master.children()  # all: they have the words of the master
        assert victims
        between += len(({*shop.plain} - {*shop.rendered}) & {*shop.pages})
        for victim in victims:
            victim.kill()
    look.wait(pk, lambda task: look.counts(pk).nf > 11)
    one.stop(signal.SIGKILL)
    start_manage("runcrawler", "--node", "two", "--workers", 2)
    task = look.wait(pk)
    assert between > 0
    assert (task.state, task.nf, task.ne) == ("finished", 18, 0)
    assert paths_of(look, pk) == sorted(shop.pages)
    assert {item["price"] for item in look.items(pk)} == {"8"}
    assert parsed(pk) == 16
    assert len(look.pages(pk)) == 18

    # The other node knows from its first page on which pages need the browser.
    plain = Counter(shop.plain)
    shop.pages = [f"/script/{100 + n}" for n in range(3)]
    look.wait(second := submit("chosen", url=shop.url))
    assert len(look.items(second)) == 6
    asked = shop.plain - plain
    assert len([path for path in asked if path.startswith("/script")]) <= 1
