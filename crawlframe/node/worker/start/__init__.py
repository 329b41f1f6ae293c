"""The start of a task; one run may yield millions of requests."""
