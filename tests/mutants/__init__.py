"""Mutants: the protocol with one line broken, and the test that notices it. See
docs/survives.md."""
