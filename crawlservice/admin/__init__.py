"""The admin: tasks with their progress and actions; pages, items, nodes, events and eras to look
at."""

from crawlservice.admin import ledger, nodes, tasks

__all__ = ("ledger", "nodes", "tasks")
