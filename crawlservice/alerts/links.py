"""Links: the paths of pages in the admin."""

from __future__ import annotations

from urllib.parse import urlencode


def list_of(model: str, **query: object) -> str:
    """The list of a model, filtered."""
    # Not by ``reverse``: nodes, which send messages, have no admin.
    path = f"/admin/crawlservice/{model}/"
    return f"{path}?{urlencode(query)}" if query else path


def page_of(model: str, number: object) -> str:
    """The page of a row; "" without a number."""
    return f"{list_of(model)}{number}/change/" if number else ""
