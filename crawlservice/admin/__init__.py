"""The admin: tasks with their progress and actions; schedules and webhooks; pages, items, nodes,
events and eras to look at; tokens of programs."""

from crawlservice.admin import deliveries, ledger, nodes, runs, schedules, tasks, tokens, webhooks

__all__ = (
    "deliveries", "ledger", "nodes", "runs", "schedules", "tasks", "tokens", "webhooks",
)  # fmt: skip
