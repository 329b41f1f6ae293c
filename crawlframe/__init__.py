"""Crawlframe: the names a spider author needs."""

from crawlframe.errors import CloseTask, DropItem, FetchError
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider
from crawlframe.task_life import Summary, TaskInfo

__all__ = [
    "CloseTask",
    "DropItem",
    "FetchError",
    "Request",
    "Response",
    "Spider",
    "Summary",
    "TaskInfo",
]
__version__ = "0.1.0"
