"""Mutants: the protocol with one line broken, and the test that notices. See docs/survives.md."""
