"""Admin pages of tasks: the form, the list, one task, its items, requests and errors."""

from crawlservice.admin.tasks import items, ledger, tasks

__all__ = ["items", "ledger", "tasks"]
