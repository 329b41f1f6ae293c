"""A spider of which only what the engine does is left."""

from crawlframe import Response, Spider


class Idle(Spider):
    """Its callback does nothing."""

    name = "idle"

    def parse(self, response: Response) -> None:
        """Nothing."""
