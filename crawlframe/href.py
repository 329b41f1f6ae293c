"""The address of a link, in each of the forms in which authors have links."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crawlframe.errors import BadRequest


def href_of(link: Any) -> str:
    """Returns the address in a string, parsel selector, selectolax node or BeautifulSoup tag.
    Raises BadRequest if there is none."""
    if isinstance(link, str):
        return link
    if isinstance(link, list):  # a SelectorList too
        raise BadRequest("follow takes one link; use follow_all for a list")
    root = getattr(link, "root", None)  # of a selector: an element, or the text of an attribute
    if isinstance(root, str):
        return root
    for name in ("attrib", "attributes", "attrs"):
        attributes = getattr(link, name, None)
        if isinstance(attributes, Mapping):
            address = attributes.get("href") or attributes.get("src")
            if isinstance(address, str):
                return address
            raise BadRequest(f"{link!r} has no href")
    raise BadRequest(f"a link must be a URL, selector, node or tag, not {type(link).__name__}")
