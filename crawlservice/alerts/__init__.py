"""Alerts: finds conditions that need a person, and notifies the targets that rules name."""
