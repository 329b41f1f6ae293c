"""Sample: the few good pages that a worker keeps of each callback and template of URLs, without
secrets."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.secret import MASK
from crawlframe.node.worker.crawl.task_crawl import TaskCrawl
from crawlframe.pages.copy import TEMPLATES, PageCopy
from crawlframe.pages.secrets import Secrets
from crawlframe.render.knowledge import form_of
from crawlframe.request.values import record_of_json, record_to_json
from crawlframe.response.response import Response
from crawlframe.run.outcome import Outcome

MAX_BODY = 2 << 20  # bytes of a body; larger pages are in no sample
REFILL = 3600.0  # seconds until as many pages are taken again as at first
MAX_CALLBACKS = 10_000  # whose pages are counted
PATIENCE = 200  # pages of a callback that are looked at although none is taken; after that
ONE_IN = 8  # of them is
OF_TASK = 2  # pages that each further task may take at first: its site may have changed
TASK_SECONDS = 30.0  # between two tasks that may


@dataclass(slots=True)
class _Callback:
    """``idle``: pages since one was taken. ``task``: the last that began with pages of its own, and
    when. ``left``: by template, the pages that may be taken, and since when there are so many; ""
    is all templates beyond the first."""

    idle: int = 0
    task: tuple[int, float] = (0, -TASK_SECONDS)
    left: dict[str, tuple[float, float]] = field(default_factory=dict)


class SamplePace:
    """Which good pages of a worker are taken: of a callback and template the first ones, then some,
    and some of each further task.
    ``most``: pages that all ``workers`` of the node take at first. ``clock`` returns seconds."""

    def __init__(
        self, most: int, workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._alone, self._share = most, -(-most // workers)
        self._clock = clock
        self._callbacks: BoundedDict[tuple[str, str], _Callback] = BoundedDict(MAX_CALLBACKS)

    def takes(self, outcome: Outcome, crawl: TaskCrawl, response: Response) -> bool:
        """Whether the page of an outcome is taken. It counts as taken then."""
        name = crawl.spec.spider, outcome.callback
        if (known := self._callbacks.get(name)) is None:
            known = self._callbacks[name] = _Callback()
        now, (task, began) = self._clock(), known.task
        if outcome.task != task and now - began >= TASK_SECONDS:
            known.idle, known.task = 0, (outcome.task, now)
            known.left = {name: (max(n, OF_TASK), at) for name, (n, at) in known.left.items()}
        known.idle += 1
        if known.idle > PATIENCE and known.idle % ONE_IN:
            return False
        form = form_of(response.url)
        if form not in known.left and len(known.left) >= TEMPLATES:
            form = ""
        most = self._alone if crawl.spider.workers == 1 else self._share
        left, since = known.left.get(form, (most, now))
        left = min(most, left + (now - since) * most / REFILL)
        if left < 1 or len(response.body) > MAX_BODY:
            return False
        known.left[form] = left - 1, now
        known.idle = 0
        return True


def without_secrets(copy: PageCopy, response: Response, crawl: TaskCrawl, outcome: Outcome) -> None:
    """Takes secrets, logins and sessions out of the copy of a page, as out of recorded pages.
    ``response``: as it was received. Raises BadRequest if its request is no record."""
    request, secrets = record_to_json(copy.record), Secrets()
    secrets.learn_arguments(crawl.spec.arguments)
    for headers in (response.sent[2] if response.sent else (), response.headers.items()):
        secrets.learn_from(secrets.headers, headers)
    secrets.learn_received(copy.body)
    secrets.learn_from(secrets.request, request)
    for link in outcome.results.follow_ups:  # URLs with the session, forms with tokens of the page
        secrets.learn_from(secrets.request, record_to_json(link.record))
    if (stripped := secrets.request(request)) != request:
        copy.record = record_of_json(stripped, outcome.depth)
    copy.url = secrets.url(copy.url)
    for side in ("sent", "received"):
        pairs = copy.headers.get(side, ())
        copy.headers[side] = [[n, v if MASK in v else secrets.header(n, v)] for n, v in pairs]
    if hops := copy.headers.get("redirects"):
        copy.headers["redirects"] = [[status, secrets.url(url)] for status, url in hops]
    if (body := secrets.body(copy.body)) is not copy.body:
        copy.body, copy.size, copy.coded = body, len(body), None
