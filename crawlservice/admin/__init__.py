"""The admin: tasks with their progress and actions; schedules and webhooks; pages, items, nodes,
events and eras to look at."""

from crawlservice.admin import deliveries, ledger, nodes, runs, schedules, tasks, webhooks

__all__ = ("deliveries", "ledger", "nodes", "runs", "schedules", "tasks", "webhooks")
