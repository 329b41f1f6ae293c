"""OnNode: the parts of a preview on a node that are made of Django."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Sequence

from django.db import Error as DatabaseError
from django.db import connections

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.preview.comparison import SpiderComparison
from crawlframe.preview.node_preview import NodePreview, PagesAway
from crawlframe.preview.rules import Regression
from crawlframe.preview.side import Order, PageWorker, Surroundings, TryPage
from crawlservice.connections.read_only import read_only
from crawlservice.pages.to_try import pages_to_try
from crawlservice.preview.reports import keep
from crawlservice.preview.result import Preview
from crawlservice.tasks.arguments.secrets import revealed

log = logging.getLogger(__name__)


def node_preview(
    settings: Settings, registry: Registry, version: str, line: socket.socket
) -> NodePreview:
    """``version``: of this process. ``line``: to the process of the live one."""

    def kept(live: str, compared: Sequence[SpiderComparison], errors: Sequence[Regression]) -> None:
        found = Preview(live, version, spiders=[*compared], regressions=[*errors])
        try:
            keep(found, settings.node)
        except DatabaseError as error:
            log.warning("the report about version %s is not kept: %s", version, error)
        finally:
            connections.close_all()

    worker = PageWorker(settings, registry, Surroundings(read_only, revealed))
    return NodePreview(worker, _pages, registry.directory, line, kept)


def _pages(spider: str, limit: int) -> Iterator[Order]:
    try:
        for arguments, page in pages_to_try(spider, limit):
            yield TryPage(0, spider, arguments, page)
    except DatabaseError as error:
        raise PagesAway(str(error)) from None
