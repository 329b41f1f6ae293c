"""Mutants: the scripts of the frontier with one line broken, and the test that notices it. See
docs/survives.md."""
