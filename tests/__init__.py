"""The tests, in the same tree as the code that they test."""
