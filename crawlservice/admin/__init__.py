"""The admin: tasks with their progress and actions; pages, items, nodes, events, eras and the
journal to look at; users and their roles."""

from crawlservice.admin import journal, ledger, nodes, people, tasks

__all__ = ("journal", "ledger", "nodes", "people", "tasks")
