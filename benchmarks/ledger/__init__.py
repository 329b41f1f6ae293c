"""Ledger: the cost of a ledger row for every request, compared with the same crawl without rows."""
