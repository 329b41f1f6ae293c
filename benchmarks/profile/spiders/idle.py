"""A spider whose pages cost only the engine's own work."""

from crawlframe import Response, Spider


class Idle(Spider):
    """A spider whose callback does nothing."""

    name = "idle"
    settings = {"delay": 0}

    def parse(self, response: Response) -> None:
        """Does nothing."""
