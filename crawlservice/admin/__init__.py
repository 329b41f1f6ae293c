"""The admin: tasks with their progress and actions; schedules and webhooks; pages, items, nodes,
events and eras to look at."""

from crawlservice.admin import ledger, nodes, runs, schedules, tasks

__all__ = ("ledger", "nodes", "runs", "schedules", "tasks")
