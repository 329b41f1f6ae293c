"""Alerts: finds what needs somebody, and notifies those that the rules name."""
