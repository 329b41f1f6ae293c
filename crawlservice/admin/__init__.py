"""The admin: tasks with their progress and actions; schedules and webhooks; pages, items, hosts,
nodes, events, eras and the journal, read-only; users with their roles; tokens."""

from crawlservice.admin import (
    deliveries,
    hosts,
    items,
    journal,
    ledger,
    nodes,
    people,
    runs,
    schedules,
    tasks,
    tokens,
    webhooks,
)  # fmt: skip

__all__ = (
    "deliveries", "hosts", "items", "journal", "ledger", "nodes", "people", "runs", "schedules",
    "tasks", "tokens", "webhooks",
)  # fmt: skip
