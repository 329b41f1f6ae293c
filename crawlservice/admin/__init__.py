"""The admin: tasks with their progress and actions; pages, items, nodes, events and eras to look
at; tokens of programs."""

from crawlservice.admin import ledger, nodes, tasks, tokens

__all__ = ("ledger", "nodes", "tasks", "tokens")
