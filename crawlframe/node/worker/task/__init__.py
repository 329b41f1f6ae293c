"""Tasks of a worker: read from the ledger, opened, refreshed and closed."""
