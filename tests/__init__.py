"""The tests, in the same tree as what they test."""
