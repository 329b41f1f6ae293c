"""Tree: any number of small pages, made on request and always the same."""

from __future__ import annotations

CHILDREN = 10  # new pages that a page links to, as long as there are any
OTHERS = (2, 3, 7, 11, 13)  # further links: to page number n // each, which were linked long before
# With scheme, host and port a URL has about 90 characters, as in real shops.
HEAD, DIGITS, TAIL = b"/catalogue/kitchen-and-dining/cookware-and-bakeware/item-", 8, b".html"
PAGE = (
    b"<!DOCTYPE html>\n<html lang=en>\n<head><meta charset=utf-8><title>Item %d</title></head>\n"
    b'<body>\n<h1>Item number %d</h1>\n<p class="price"><span class="amount">%d.50</span></p>\n'
    b"<ul>\n%s</ul>\n%s</body>\n</html>\n"
)
LINK = b'<li><a href="%s">item %d</a></li>\n'
FILLER = b"<p>Stainless steel, dishwasher safe, one litre. Rated by people who cook.</p>\n" * 8


class Tree:
    """Pages 0 to ``pages`` - 1, about 2 KB each; all are reached from page 0.

    Breadth first, most of the pages wait in the queue at once: the longest one that there is."""

    def __init__(self, pages: int) -> None:
        self.pages = pages

    @property
    def start(self) -> str:
        """The path of page 0, without the slash at its beginning."""
        return path_of(0).decode()[1:]

    def links(self, number: int) -> list[int]:
        """The distinct pages that a page links to."""
        first = CHILDREN * number + 1
        others = [number // part for part in OTHERS]
        return [*dict.fromkeys([*range(first, min(first + CHILDREN, self.pages)), *others])]

    def page(self, number: int) -> bytes:
        """The HTML of a page."""
        links = b"".join([LINK % (path_of(target), target) for target in self.links(number)])
        return PAGE % (number, number, number % 1000, links, FILLER)

    def number_of(self, path: bytes) -> int | None:
        """The page with this path; None when there is none."""
        digits = path[len(HEAD) : -len(TAIL)]
        if not digits.isdigit() or path_of(int(digits)) != path:
            return None
        return int(digits) if int(digits) < self.pages else None


def path_of(number: int) -> bytes:
    return b"%s%0*d%s" % (HEAD, DIGITS, number, TAIL)
