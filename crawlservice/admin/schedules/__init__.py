"""Admin pages of schedules."""

from crawlservice.admin.schedules import schedules

__all__ = ["schedules"]
