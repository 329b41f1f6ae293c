"""Crawlframe: the names a spider author needs."""

from crawlframe.errors import FetchError
from crawlframe.request import Request
from crawlframe.response import Response
from crawlframe.spider import Spider

__all__ = ["FetchError", "Request", "Response", "Spider"]
__version__ = "0.1.0"
