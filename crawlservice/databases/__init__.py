"""Other databases: brings model items to those that the transactions of pages do not reach."""
