"""Crawlframe: the names a spider author needs."""

from crawlframe.errors import CloseTask, DropItem, FetchError, Retry
from crawlframe.middleware import CallNext, Middleware, SyncCallNext, SyncMiddleware
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.secret import Secret
from crawlframe.spider import Spider
from crawlframe.task_life import Summary, TaskInfo

__all__ = [
    "CallNext",
    "CloseTask",
    "DropItem",
    "FetchError",
    "Middleware",
    "Request",
    "Response",
    "Retry",
    "Secret",
    "Spider",
    "Summary",
    "SyncCallNext",
    "SyncMiddleware",
    "TaskInfo",
]
__version__ = "0.1.0"
