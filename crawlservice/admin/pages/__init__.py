"""Admin pages of kept pages, and of parsing them again."""

from crawlservice.admin.pages import pages

__all__ = ["pages"]
