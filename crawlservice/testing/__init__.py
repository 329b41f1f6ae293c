"""Contracts of kinds, as tests that anybody can run against their own."""
