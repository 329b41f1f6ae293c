"""Crawlframe: the names a spider author needs."""

from crawlframe.errors import FetchError, Retry
from crawlframe.middleware import CallNext, Middleware, SyncCallNext, SyncMiddleware
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider

__all__ = [
    "CallNext",
    "FetchError",
    "Middleware",
    "Request",
    "Response",
    "Retry",
    "Spider",
    "SyncCallNext",
    "SyncMiddleware",
]
__version__ = "0.1.0"
