"""FollowedOnce: the links of templates in one task, for the setting ``denoise = "template"``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.base.urls import host_of
from crawlframe.errors import TooComplex, TooDeep
from crawlframe.noise.page import PageLinks
from crawlframe.noise.report import judge
from crawlframe.noise.template import HOSTS, LINKS, PAGES, REASON, TemplateLinks, keys_of

SAMPLES = 5  # links of a template that the log names


class FollowedOnce:
    """Used by one thread. ``say`` is called with a line for the log of the task when the template
    of a host is used first."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._links = TemplateLinks()
        self._followed: BoundedDict[str, set[str]] = BoundedDict(HOSTS)  # host -> URLs

    def page(self, response: Any) -> PageTemplate | None:
        """Counts the links of a page. Returns None if none of them belongs to the template of its
        host, as far as that is known, or if the page is not HTML or too much for a parser."""
        seen = _Template(self._links)
        try:
            noise = judge(response, seen).noise
        except (TooDeep, TooComplex):
            return None
        if not noise:
            return None
        host = host_of(response.url)
        known = self._followed.use(host)
        if known is None:
            known = self._followed[host] = set()
            self._tell(host, [*noise])
        if len(known) > LINKS:  # it has changed often; they are followed once more
            known.clear()
        return PageTemplate(frozenset(noise), known)

    def _tell(self, host: str, urls: list[str]) -> None:
        more = f" and {len(urls) - SAMPLES:,} more" if len(urls) > SAMPLES else ""
        self._say(
            f"links that most pages of {host} have are followed once, as is known after {PAGES} "
            f"pages: {', '.join(urls[:SAMPLES])}{more}"
        )


class _Template:
    """A filter for ``judge``: the links that belong to the template."""

    def __init__(self, links: TemplateLinks) -> None:
        self._links = links

    def reasons(self, page: PageLinks) -> Sequence[str]:
        keys = keys_of(page)
        template = self._links.template(page.host, keys)
        return [REASON if key in template else "" for key in keys]


class PageTemplate:
    """The links of one page that belong to the template of its host. ``followed``: links of the
    host that were followed before."""

    def __init__(self, urls: frozenset[str], followed: set[str]) -> None:
        self._urls, self._followed = urls, followed
        self._new: list[str] = []

    def refuses(self, url: str) -> bool:
        """Whether a link is not followed again."""
        return url in self._urls and url in self._followed

    def take(self, url: str) -> None:
        """A link is followed, or known to be."""
        if url in self._urls:
            self._new.append(url)

    def done(self) -> None:
        """Notes that the results of the page are to be stored: its links were followed."""
        self._followed.update(self._new)
