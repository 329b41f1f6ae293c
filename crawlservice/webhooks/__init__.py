"""Webhooks: events, their signatures and deliveries."""
