"""Responses: fetched, rendered and stored pages as callbacks receive them."""

from crawlframe.response.response import Response as Response
