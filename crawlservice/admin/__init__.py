"""The admin: tasks with their progress and actions; schedules and webhooks; pages, items, nodes,
robots.txt, events, eras and the journal, read-only; users with their roles; tokens."""

from crawlservice.admin import (
    deliveries,
    items,
    journal,
    ledger,
    nodes,
    people,
    robots,
    runs,
    schedules,
    tasks,
    tokens,
    webhooks,
)  # fmt: skip

__all__ = (
    "deliveries", "items", "journal", "ledger", "nodes", "people", "robots", "runs", "schedules",
    "tasks", "tokens", "webhooks",
)  # fmt: skip
