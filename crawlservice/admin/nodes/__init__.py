"""Admin pages of nodes, and the dashboard."""

from crawlservice.admin.nodes import nodes

__all__ = ["nodes"]
