"""Signals: events of tasks, schedules, nodes and hosts, for Django apps of your own
(CRAWLFRAME_APPS).

The leading steward sends them from the outbox, in a thread of its own, at least once: if it dies,
some are sent again. A receiver that raises is logged, and not called again for that event.
Receivers get ``event``, a crawlservice.models.Event. Further arguments: task_ended ``task``,
``outcome`` and ``reason``; schedule_failed ``schedule``; node_offline and node_back the name of the
``node``; host_held and host_resumed the name of the ``host``; quality_failed the ``task`` and its
``findings``; pages_found and page_gone the ``task`` and the event's ``pages``. The ends of rounds
of watches are not sent."""

from __future__ import annotations

from typing import Any

from django.dispatch import Signal

from crawlservice.models import Event, Schedule, Task

task_ended = Signal()
schedule_failed = Signal()
node_offline = Signal()
node_back = Signal()
host_held = Signal()
host_resumed = Signal()
quality_failed = Signal()
pages_found = Signal()
page_gone = Signal()

_ALL = (
    *(task_ended, schedule_failed, node_offline, node_back, host_held, host_resumed),
    *(quality_failed, pages_found, page_gone),
)


def wanted() -> bool:
    """Whether any of them has a receiver."""
    return any(signal.has_listeners() for signal in _ALL)


def send(event: Event) -> None:
    """Calls the receivers of an event."""
    given: dict[str, Any] = {"event": event}
    if event.kind == Event.Kind.SCHEDULE_FAILED:
        schedule_failed.send_robust(Schedule, schedule=event.schedule, **given)
    elif event.kind == Event.Kind.NODE_OFFLINE:
        node_offline.send_robust(Event, node=event.node, **given)
    elif event.kind == Event.Kind.NODE_BACK:
        node_back.send_robust(Event, node=event.node, **given)
    elif event.kind == Event.Kind.HOST_HELD:
        host_held.send_robust(Event, host=event.host, **given)
    elif event.kind == Event.Kind.HOST_RESUMED:
        host_resumed.send_robust(Event, host=event.host, **given)
    elif event.kind == Event.Kind.QUALITY_FAILED:
        found = (event.detail or {}).get("findings", [])
        quality_failed.send_robust(Task, task=event.task, findings=found, **given)
    elif event.kind in (Event.Kind.PAGES_FOUND, Event.Kind.PAGE_GONE):
        signal = pages_found if event.kind == Event.Kind.PAGES_FOUND else page_gone
        signal.send_robust(Task, task=event.task, pages=event.detail or {}, **given)
    elif event.task is None or event.task.watch_id is None:
        about = {"task": event.task, "outcome": event.outcome, "reason": event.reason}
        task_ended.send_robust(Task, **about, **given)
