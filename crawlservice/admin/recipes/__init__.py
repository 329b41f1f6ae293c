"""Admin pages of recipes."""

from crawlservice.admin.recipes import recipes

__all__ = ["recipes"]
