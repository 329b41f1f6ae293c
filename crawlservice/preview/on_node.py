"""OnNode: the parts of a preview on a node that are made of Django."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import nullcontext

from crawlframe.code.registry import Registry
from crawlframe.conf import Settings
from crawlframe.preview.node_preview import NodePreview
from crawlframe.preview.side import Order, PageWorker, Surroundings, TryPage
from crawlservice.pages.to_try import pages_to_try
from crawlservice.tasks.arguments.secrets import revealed


def node_preview(settings: Settings, registry: Registry, line: socket.socket) -> NodePreview:
    """``line``: to the process of the other version. The caller keeps databases from being
    written."""
    worker = PageWorker(settings, registry, Surroundings(nullcontext, revealed))
    return NodePreview(worker, _pages, registry.directory, line)


def _pages(spider: str, limit: int) -> Iterator[Order]:
    for arguments, page in pages_to_try(spider, limit):
        yield TryPage(0, spider, arguments, page)
