"""The admin: tasks with their progress and actions; schedules, recipes, webhooks and exports;
pages, items, hosts, nodes, robots.txt, events, eras and the journal, read-only; users with their
roles; tokens; credentials of hosts."""

from crawlservice.admin import (
    credentials,
    deliveries,
    exports,
    hosts,
    items,
    journal,
    ledger,
    nodes,
    people,
    recipes,
    robots,
    runs,
    schedules,
    tasks,
    tokens,
    webhooks,
)  # fmt: skip

__all__ = (
    "credentials", "deliveries", "exports", "hosts", "items", "journal", "ledger", "nodes",
    "people", "recipes", "robots", "runs", "schedules", "tasks", "tokens", "webhooks",
)  # fmt: skip
