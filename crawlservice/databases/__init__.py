"""Other databases: delivers model items to databases outside of the transactions of pages."""
