"""Admin pages of alerts: rules, targets and messages."""

from crawlservice.admin.alerts import alerts, rules, targets

__all__ = ["alerts", "rules", "targets"]
