"""Events as they happen: a stream of server-sent events from the outbox."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DatabaseError, connection
from django.http import HttpRequest, StreamingHttpResponse
from ninja import Header, Query

from crawlservice.api.parts import shutdown
from crawlservice.api.parts.auth import Bearer
from crawlservice.api.parts.errors import ApiError, Operations, sends
from crawlservice.api.parts.paging import MAX_ID, TEXT
from crawlservice.api.parts.schemas import Outcome
from crawlservice.models import SPIDER, Event
from crawlservice.tasks import labels
from crawlservice.webhooks import deliveries

router = Operations(tags=["events"])

STREAM_SECONDS = 300.0  # seconds; then the reader connects again, with the number of its last event
POLL = 0.5  # seconds
BEAT = 10.0  # seconds without an event after which a heartbeat is sent

_lock = threading.Lock()
_open: set[Stream] = set()


@router.get(
    "/events",
    auth=Bearer("read", "view_event"),
    openapi_extra=sends("The stream", "text/event-stream"),
)
def read_events(
    request: HttpRequest,
    task: Annotated[int | None, Query(ge=1, le=MAX_ID)] = None,
    spider: Annotated[str | None, Query(min_length=1, max_length=SPIDER, pattern=TEXT)] = None,
    kind: Annotated[str | None, Query(min_length=1, max_length=20, pattern=TEXT)] = None,
    outcome: Annotated[Outcome | None, Query()] = None,
    after: Annotated[
        int | None, Query(ge=0, le=MAX_ID, description="number of the last event received")
    ] = None,
    last: Annotated[
        int | None,
        Header(alias="Last-Event-ID", ge=0, le=MAX_ID, description="the same; overrides `after`"),
    ] = None,
) -> StreamingHttpResponse:
    """Events as they happen (`finished`, `failed`, `cancelled`, `schedule_failed`, `node_offline`,
    `node_back`, `host_held`, `host_resumed`, `quality_failed`, `pages_found`, `page_gone`), or all
    after a given one.

    `id` is the number of the event, `event` its kind, `data` JSON: id, task, spider, kind, outcome,
    reason, schedule, node, host, labels, created_at. A task that finished with errors is of kind
    `finished`. Only events of tasks have a task, of schedules a schedule, of nodes a node, of hosts
    a host. The stream ends after five minutes; connect again with Last-Event-ID."""
    known = last if last is not None else after
    wanted = {"task_id": task, "spider": spider, "kind": kind, "outcome": outcome}
    stream = Stream(deliveries.newest() if known is None else known, wanted)
    if not stream.opened():
        raise ApiError(
            503, "too_many_streams", f"{settings.API_STREAMS} streams are open here; try again"
        )
    return StreamingHttpResponse(
        stream,
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


class Stream:
    """One reader's stream; it occupies a thread of the web process. ``wanted``: values of events by
    column; None: any."""

    def __init__(self, last: int, wanted: Mapping[str, Any]) -> None:
        self._last = last
        self._wanted = {name: value for name, value in wanted.items() if value is not None}

    def opened(self) -> bool:
        """Whether it was opened; False: this process has as many as it may."""
        with _lock:
            if len(_open) >= settings.API_STREAMS:
                return False
            _open.add(self)
            return True

    def close(self) -> None:
        """Called when the reader is gone, or everything was sent."""
        with _lock:
            _open.discard(self)

    def __iter__(self) -> Iterator[bytes]:
        ends = time.monotonic() + STREAM_SECONDS
        wanted = self._wanted.items()
        beat = 0.0  # at once, so that a reader that connects again knows where it was
        while time.monotonic() < ends and not shutdown.is_requested():
            try:
                found = deliveries.after(self._last)
            except DatabaseError:
                connection.close()
                return  # the reader connects again
            for event in found:
                self._last = event.pk
                if all(getattr(event, name) == value for name, value in wanted):
                    yield self._frame(event)
                    beat = time.monotonic() + BEAT
            if time.monotonic() >= beat:
                yield f": beat\nid: {self._last}\n\n".encode()
                beat = time.monotonic() + BEAT
            if not found:
                shutdown.wait(POLL)

    def _frame(self, event: Event) -> bytes:
        data = {
            "id": event.pk,
            "task": event.task_id,
            "spider": event.spider,
            "kind": event.kind,
            "schedule": event.schedule_id,
            "outcome": event.outcome or None,
            "reason": event.reason,
            "created_at": event.created_at,
            "node": event.node or None,
            "host": event.host or None,
            "labels": {} if event.task_id is None else labels.of_task(event.task_id),
        }
        text = json.dumps(data, cls=DjangoJSONEncoder)
        return f"id: {event.pk}\nevent: {event.kind}\ndata: {text}\n\n".encode()
