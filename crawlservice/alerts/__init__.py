"""Alerts: finds what needs somebody, and tells whom the rules name."""
