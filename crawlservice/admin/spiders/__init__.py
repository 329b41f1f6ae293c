"""Admin pages of spiders, and of the aliases of their pages."""

from crawlservice.admin.spiders import aliases, spiders

__all__ = ["aliases", "spiders"]
