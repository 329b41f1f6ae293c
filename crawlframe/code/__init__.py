"""Spiders' code: imported from source, digested into versions, checked out by git."""
