"""Limits of the links that a page may lead to: traps, known links, budgets."""
