"""The conditions that open alerts, a module each."""
