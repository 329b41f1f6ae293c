"""Verbs of ``task``, each imported when it is typed, and the report on a task."""
