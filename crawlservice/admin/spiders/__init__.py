"""Admin pages of spiders: their runs and their aliases."""

from crawlservice.admin.spiders import aliases, runs

__all__ = ["aliases", "runs"]
