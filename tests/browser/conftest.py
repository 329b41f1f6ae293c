"""Fixtures of the tests with a real browser: those of the service."""

from tests.crawlservice.conftest import join, published, service, shop

__all__ = ("join", "published", "service", "shop")
