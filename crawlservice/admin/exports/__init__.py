"""Admin pages of data that leaves the service: exports, rows, webhooks."""

from crawlservice.admin.exports import exports, row_deliveries, webhooks

__all__ = ["exports", "row_deliveries", "webhooks"]
