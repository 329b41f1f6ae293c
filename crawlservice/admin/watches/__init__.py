"""Admin pages of watches."""

from crawlservice.admin.watches import watches

__all__ = ["watches"]
