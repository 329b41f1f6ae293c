"""The admin: tasks with their progress and actions; pages, items, nodes, events and eras to look
at."""

from django.contrib import admin

from crawlservice.admin import ledger, nodes, tasks

__all__ = ("ledger", "nodes", "tasks")

admin.site.site_header = admin.site.site_title = "Crawlframe"
