"""The admin: tasks with their progress and actions; pages, items, nodes, events and eras to look
at."""

from crawlservice.admin import items, ledger, nodes, tasks

__all__ = ("items", "ledger", "nodes", "tasks")
