"""Record: makes the folder of a recording from fetched pages, without secrets, and checks that it
replays."""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from crawlframe.base.media_type import HEAD as FIRST
from crawlframe.base.media_type import essence_of, media_type
from crawlframe.conf import Settings
from crawlframe.pages.secrets import Secrets
from crawlframe.recorded.difference import (
    differences,
    readable,
    snapshot_of,
    snapshot_of_error,
    volatile,
)
from crawlframe.recorded.folder import (
    START,
    Exchange,
    Failure,
    Head,
    RecordedPage,
    Recording,
    RecordingError,
    RenderedFiles,
)
from crawlframe.recorded.recorder import RecordedTransfer, RecordedVisit
from crawlframe.recorded.replay import NotReplayed, RecordingReplay
from crawlframe.request.values import body_to_json, request_to_json
from crawlframe.response.browser_response import RenderedResponse
from crawlframe.response.media_kind import kind_of
from crawlframe.response.response import Response
from crawlframe.spider.spider import Spider

MAX_NAME = 60  # characters of a page's name
SUFFIXES = {"html": "html", "xml": "xml", "json": "json", "text": "txt"}
# Headers that differ with each response, and say nothing about the page.
NOISE = {
    "age", "cf-cache-status", "cf-ray", "connection", "content-length", "date", "keep-alive", "nel",
    "report-to", "server-timing", "transfer-encoding", "via", "x-amz-cf-id", "x-amz-request-id",
    "x-amzn-trace-id", "x-cache", "x-cache-hits", "x-request-id", "x-runtime", "x-served-by",
    "x-timer",
}  # fmt: skip

_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")
# Names with which a file of a page could have the name of another file of the recording.
_TAKEN = re.compile(r"recording|start|.*\.(?:page|result|\d+)", re.I)


class RefusedPage(NamedTuple):
    """A page that is not in the recording, and why."""

    url: str
    why: str


class Made(NamedTuple):
    """An unwritten recording. ``raised``: errors of callbacks by the name of the page;
    ``stripped``: secrets that were taken out; ``ignored``: parts of results that vary."""

    recording: Recording
    refused: list[RefusedPage]
    raised: dict[str, str]
    stripped: list[str]
    ignored: list[str]


def make(
    directory: Path,
    kind: type[Spider],
    arguments: dict[str, Any],
    visits: Iterable[RecordedVisit],
    settings: Settings | None = None,
    ignore: Iterable[str] = (),
) -> Made:
    """Returns the recording of the visits that lead to the same when they are replayed.
    ``ignore``: parts of results that are not compared."""
    visits, secrets = [*visits], Secrets()
    head = Head(kind.name, arguments=secrets.learn_arguments(arguments), ignore=sorted({*ignore}))
    stripped = {*secrets.names}
    for visit in visits:
        _learn(secrets, visit)
    recording, refused, raised = Recording(directory, head), list[RefusedPage](), dict[str, str]()
    for visit in visits:
        if visit.refused:
            refused.append(RefusedPage(secrets.url(visit.url), secrets.text(visit.refused)))
            continue
        secrets.names = set()
        _add(recording, visit, secrets)
        stripped |= secrets.names
    replay, found = RecordingReplay(recording, kind, settings), set[str]()
    for name, page in [*recording.pages.items()]:
        why, changing = _check(recording, replay, name)
        found |= changing
        if why:
            refused.append(RefusedPage(page.url, why))
            del recording.results[name]
        elif "raised" in recording.results[name]:
            raised[name] = recording.results[name]["raised"]
    for name in recording.pages.keys() - recording.results.keys():
        del recording.pages[name]  # only now: another page may have needed its fetches
    head.ignore = sorted({*head.ignore, *found})
    return Made(recording, refused, raised, sorted(stripped), sorted(found))


def _check(recording: Recording, replay: RecordingReplay, name: str) -> tuple[str, set[str]]:
    """Why a page does not replay, "" if it does, and the parts of its result that change."""
    before = recording.results[name]
    try:
        now = replay.run(name).snapshot
    except (NotReplayed, RecordingError) as error:
        return str(error), set()
    ignore = {*recording.head.ignore}
    found = differences(before, now, ignore)
    if not found:
        return "", set()
    ignore |= (changing := volatile(before, now))
    if changing and not differences(before, now, ignore):
        return "", changing
    return f"it does not lead to the same when it is replayed alone: {found[0]}", set()


def _learn(secrets: Secrets, visit: RecordedVisit) -> None:
    requests = [visit.request] if visit.request is not None else []
    for transfer in visit.transfers:
        requests.append(transfer.request)
        response = transfer.response
        sent = getattr(response or transfer.error, "sent", None)
        if sent is not None:
            secrets.learn_from(secrets.headers, sent[2])
        if response is not None:
            secrets.learn_from(secrets.headers, response.headers.items())
            secrets.learn_received(transfer.body)
        if isinstance(response, RenderedResponse):
            secrets.learn_received(msgspec.json.encode(response.captured))
    if visit.result is not None:
        requests += visit.result.requests  # a page may show a sent secret only later
    for request in requests:
        secrets.learn_from(secrets.request, request_to_json(request))


def _add(recording: Recording, visit: RecordedVisit, secrets: Secrets) -> None:
    if visit.raised is not None:
        result = snapshot_of_error(visit.raised, secrets)
    else:
        assert visit.result is not None
        result = snapshot_of(visit.result, secrets)
    request = None
    if visit.request is not None:
        request = secrets.request(request_to_json(visit.request))
    name = _name(request, recording.pages)
    bodies = _Bodies(name, secrets)
    page = RecordedPage(request, [_exchange(one, secrets, bodies) for one in visit.transfers])
    page.stripped = sorted(secrets.names)
    recording.add(name, page, result, bodies.files)


def _exchange(transfer: RecordedTransfer, secrets: Secrets, bodies: _Bodies) -> Exchange:
    request, response, error = transfer.request, transfer.response, transfer.error
    sent = secrets.sent_body(body_to_json(request.body))
    exchange = Exchange(secrets.url(request.url), request.method, sent)
    if transfer.rendered:
        exchange.rendered = RenderedFiles()
    if transfer.redirect is not None:
        exchange.status, target = transfer.redirect
        exchange.redirect = secrets.url(target)
    elif error is not None:
        words = readable(secrets.url(str(error)))
        exchange.error = Failure(type(error).__name__, words, str(error.reason))
    elif response is not None:
        headers = [
            (str(n), value) for n, value in response.headers.items() if n.lower() not in NOISE
        ]
        exchange.status = response.status
        exchange.headers = [f"{name}: {value}" for name, value in secrets.headers(headers)]
        final = secrets.url(response.url)
        exchange.final = final if final != exchange.url else ""
        exchange.body = bodies.add(transfer.body, _suffix(response, transfer.body))
        if isinstance(response, RenderedResponse):
            exchange.rendered = RenderedFiles(
                secrets.value(msgspec.to_builtins(response.captured)),
                secrets.value(response.results),
                bodies.add(response.screenshot, _suffix_of_type(response.screenshot)),
                bodies.add(response.pdf, "pdf"),
            )
    return exchange


class _Bodies:
    """The files of one page. ``files`` has their contents by name."""

    def __init__(self, page: str, secrets: Secrets) -> None:
        self._page = page
        self._secrets = secrets
        self.files: dict[str, bytes] = {}

    def add(self, body: bytes, suffix: str) -> str:
        """Returns the name of the file; "" for an empty body."""
        if not body:
            return ""
        number = f".{len(self.files) + 1}" if self.files else ""
        name = f"{self._page}{number}.{suffix}"
        self.files[name] = self._secrets.body(body)
        return name


def _suffix(response: Response, body: bytes) -> str:
    essence = essence_of(response.headers.get("Content-Type", ""))
    kind = kind_of(essence, body)
    return SUFFIXES.get(kind) or _suffix_of_type(body, essence)


def _suffix_of_type(body: bytes, essence: str = "") -> str:
    kind = media_type(essence, body[:FIRST])
    return (mimetypes.guess_extension(kind) or ".bin")[1:]


def _name(request: dict[str, Any] | None, taken: Iterable[str]) -> str:
    """The name of a page: the path of its URL, and a part of a hash where that does not say all."""
    if request is None:
        return START
    url = urlsplit(request["url"])
    path = unquote(url.path).strip("/")
    words = _UNFIT.sub("-", path.replace("/", "-")).strip("-.") or "index"
    whole = not _UNFIT.search(path.replace("/", "-")) and not url.query and len(words) <= MAX_NAME
    whole = whole and "body" not in request and not _TAKEN.fullmatch(words)
    name, used = words[:MAX_NAME].strip("-."), {one.lower() for one in taken}
    if whole and name.lower() not in used:  # some file systems do not know small from capital
        return name
    mark = msgspec.json.encode(
        [request.get(part) for part in ("method", "url", "body", "callback")]
    )
    name = first = f"{name}-{blake2b(mark, digest_size=3).hexdigest()}"
    number = 2
    while name.lower() in used:
        name, number = f"{first}-{number}", number + 1
    return name
