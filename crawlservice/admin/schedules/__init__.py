"""Admin pages of schedules and their runs."""

from crawlservice.admin.schedules import schedules

__all__ = ["schedules"]
