"""The start of a task, of which one run may yield millions of requests."""
