"""ComparedText: the part of a spider that says which text of a page is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crawlframe.near.text import visible_text

if TYPE_CHECKING:
    from crawlframe.response import Response


class ComparedText:
    """A base class of spiders."""

    def near_text(self, response: Response) -> str:
        """With ``near_duplicates``, called with each page before its callback: the text that is
        compared with those of other pages; "" if the page is not compared. By default, what is
        visible of an HTML page, without navigation, header, footer and asides; all of another text,
        and nothing of other kinds."""
        if response.kind == "html":
            return visible_text(response._utf8)
        return response.text if response.kind in ("text", "xml", "json") else ""
