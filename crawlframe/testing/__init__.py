"""What the tests of spiders need: responses made by hand, and the engine of a worker that runs one
callback. Nothing is fetched or stored; no server is needed."""

from crawlframe.testing.inputs import make_response, make_summary
from crawlframe.testing.result import Result
from crawlframe.testing.runs import run

__all__ = ["Result", "make_response", "make_summary", "run"]
