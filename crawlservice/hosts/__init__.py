"""Hosts: their lists and states, and the orders of operators."""
