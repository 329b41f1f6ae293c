"""Tools for tests of spiders: responses made by hand, and the engine of a worker that runs one
callback. Nothing is fetched or stored; no server is needed."""

from crawlframe.testing.result import Result
from crawlframe.testing.runs import run
from crawlframe.testing.trial import make_response, make_summary

__all__ = ["Result", "make_response", "make_summary", "run"]
