"""The common base of this project's spiders."""

from __future__ import annotations

from crawlframe import Spider


class ProjectSpider(Spider):
    """The base class of this project's spiders. Each of them inherits the ``middlewares``,
    ``pipelines`` and ``settings`` that are declared here."""
