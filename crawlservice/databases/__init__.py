"""Other databases: delivers model items to databases that the transactions of pages do not reach."""
