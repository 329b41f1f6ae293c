"""PageTrial: the callback of a kept page, run with the code of today. The service imports no
spiders, so a node is asked; it runs the code in a process of its own, without any effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from redis import RedisError

from crawlframe.base.exact_json import dumps, loads
from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.frontier import Frontier
from crawlframe.frontier.client.wording import error_text
from crawlframe.frontier.cluster.trials import TrialOrder
from crawlframe.pages.stored import response_of
from crawlframe.recipes.loading import spider_of_stored
from crawlframe.recorded.difference import differences
from crawlframe.recorded.kept import KeptTrial
from crawlframe.request.request import Request
from crawlservice.connections.frontier import frontier
from crawlservice.connections.read_only import read_only
from crawlservice.display import readable
from crawlservice.models import Item, KeptPage
from crawlservice.pages.bodies import read
from crawlservice.pages.lookup import stored
from crawlservice.recipes.current import current
from crawlservice.tasks.arguments.secrets import revealed

TAKE_SECONDS = 20.0  # seconds within which a node takes an order
ANSWER_SECONDS = 45.0  # seconds within which it answers
MAX_SHOWN_ROWS = 200  # items and requests that are shown
MAX_ANSWER = 1 << 20  # bytes of an answer, beyond which items and requests are left out
MAX_CHARS = 10_000  # characters of a traceback, and of a difference


class NotTried(CrawlframeError):
    """The page could not be tried."""


@dataclass
class Answer:
    """``problem``: why there is no result. ``differences``: between the new items and the items of
    the run that kept the page."""

    problem: str = ""
    version: str = ""
    node: str = ""
    end: str = ""
    raised: str = ""
    items: list[Any] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    @property
    def shown_items(self) -> SafeString:
        return readable(self.items)

    def as_data(self) -> dict[str, Any]:
        return asdict(self)

    def encode(self) -> bytes:
        """JSON of at most MAX_ANSWER bytes; ``problem`` names the omitted parts."""
        self.problem, self.raised = self.problem[:MAX_CHARS], self.raised[-MAX_CHARS:]
        self.differences = [line[:MAX_CHARS] for line in self.differences]
        text = dumps(self.as_data())
        if len(text) > MAX_ANSWER:
            self.problem = (
                f"what it yields has {len(text):,} bytes, which is too much to be shown; "
                "run it with crawlframe.testing"
            )
            self.items, self.requests = [], []
            text = dumps(self.as_data())
        return text


def ask(page: KeptPage) -> str:
    """Asks the nodes. Returns the id of the order, for ``answer``. Raises NotTried, and
    FrontierError."""
    recipe, order = current(page.task.spider), uuid4().hex
    with _redis():
        spider = page.task.spider if recipe is None or _is_code(page.task.spider) else ""
        frontier().trials.ask(order, TrialOrder(page.rid.hex, spider))
    return order


def answer(order: str) -> Answer | None:
    """Returns the answer to an order; None while there is none. Raises NotTried."""
    with _redis():
        state = frontier().trials.state(order)
    if state is None:
        raise NotTried(_("Nothing is known of this order any more; run it again"))
    if state.answer:
        return Answer(**loads(state.answer))
    if state.waits and state.waited > TAKE_SECONDS:
        raise NotTried(_("No running node has this spider"))
    if state.waited > ANSWER_SECONDS:
        raise NotTried(_("It ended without a result: it crashed, or took longer than 30 s"))
    return None


def run(
    frontier: Frontier, settings: Settings, registry: Registry, version: str, id_: str, rid: str
) -> None:
    """Runs the page of an order on a node, and answers. Raises redis.RedisError."""
    try:
        with read_only():
            found = _tried(settings, registry, UUID(rid))
    except CrawlframeError as error:
        found = Answer(problem=str(error))
    found.version, found.node = version, settings.node
    frontier.trials.answer(id_, found.encode())


def _tried(settings: Settings, registry: Registry, rid: UUID) -> Answer:
    rows = KeptPage.objects.select_related("task", "body")
    page = rows.filter(rid=rid).first()
    if page is None:
        raise NotTried(f"the page {rid} is not kept any more")
    recipe = current(page.task.spider)
    if recipe is None or page.task.spider in registry.spiders:
        kind = registry.get(page.task.spider)
    else:
        kind = spider_of_stored(recipe.text)
    request = Request.decode(bytes(page.record))
    body = read([page.body_id])[page.body_id]
    ((_, kept),) = stored([page.pk])
    response = response_of(kept, request, body)
    found = KeptTrial(kind, revealed(page.task.arguments), settings).run(request, response)
    before = [*Item.objects.filter(rid=rid).order_by("ordinal").values_list("data", flat=True)]
    items, requests = found.get("items", []), found.get("requests", [])
    shown = [f"{one.get('callback', 'parse')} {one['url']}" for one in requests]
    end = found["end"] if found["end"] == "done" else f"{found['end']}, {found['reason']}"
    lines = differences({"items": before}, {"items": items})
    trace = found.get("trace", "")
    return Answer("", "", "", end, trace, items[:MAX_SHOWN_ROWS], shown[:MAX_SHOWN_ROWS], lines)


@contextmanager
def _redis() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise NotTried(error_text(error)) from None


def _is_code(spider: str) -> bool:
    """Whether a node has a spider of the code with this name, which goes before a recipe."""
    return any(spider in node.spiders for node in frontier().leases.nodes() if node.lease_left > 0)
