"""Admin pages of tasks: the form, the list, one task, its items, requests and errors."""

from crawlservice.admin.tasks import (
    downloads,
    errors,
    item_tabs,
    items,
    ledger,
    reparse,
    submit_page,
    tasks,
)

__all__ = [
    "downloads",
    "errors",
    "item_tabs",
    "items",
    "ledger",
    "reparse",
    "submit_page",
    "tasks",
]
