"""The admin: its pages, in a folder for each subject."""

from crawlservice.admin import (
    alerts,
    exports,
    hosts,
    kept_pages,
    nodes,
    people,
    recipes,
    schedules,
    spiders,
    tasks,
    watches,
)

__all__ = [
    "alerts",
    "exports",
    "hosts",
    "kept_pages",
    "nodes",
    "people",
    "recipes",
    "schedules",
    "spiders",
    "tasks",
    "watches",
]
