"""The ledger: the transaction of outcomes, its audit, and recovery of Redis from it."""
