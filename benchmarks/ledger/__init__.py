"""Ledger: what the promise costs that every request has its row, beside the same crawl without."""
