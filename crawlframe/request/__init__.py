"""Requests: their checks, options, and the records that they are stored as."""

from crawlframe.request.request import Request as Request
