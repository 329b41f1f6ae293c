"""Admin pages of cases and alerts: rules, targets and messages."""

from crawlservice.admin.alerts import alerts, cases, rules, targets

__all__ = ["alerts", "cases", "rules", "targets"]
