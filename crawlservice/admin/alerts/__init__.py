"""Admin pages of alerts: rules, targets and messages."""

from crawlservice.admin.alerts import alerts, messages, rules, targets

__all__ = ["alerts", "messages", "rules", "targets"]
