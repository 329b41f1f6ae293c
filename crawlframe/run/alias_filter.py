"""KnownByRules: which URLs of one task are the same page, for the setting ``aliases``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from crawlframe.aliases.rule import Alias, Aliases, AliasRule
from crawlframe.base.limits import ALIAS
from crawlframe.base.urls import canonical
from crawlframe.request.request import Request, make_rid
from crawlframe.run.link_filters import WATCHED, Keep, LinkPage, NewRequest

SAMPLES = 3  # links of each rule that the log names


class KnownByRules:
    """Used by one thread. ``say`` is called with a line for the log of the task for the first links
    that are not fetched by a rule."""

    def __init__(self, rules: Iterable[AliasRule], say: Callable[[str], None]) -> None:
        self._aliases = Aliases(rules)
        self._say = say
        self._logged: Counter[tuple[str, ...]] = Counter()

    def of_page(self, page: LinkPage) -> Keep:
        """As LinkFilter has it; before KnownFilter."""
        found: Alias | None = None
        aliased = page.outcome.results.aliased = page.outcome.results.aliased or set()

        def keep(link: NewRequest) -> None:
            nonlocal found
            found = self.find(link.request)
            link.key = None if found is None else found.key

        def note(link: NewRequest, reason: str | None) -> None:
            if found is None:
                return
            if reason == ALIAS:
                self.tell(found, link.request.url)
            elif reason in (None, WATCHED):
                # Only now: if this URL is refused, another URL of its page may not be.
                page.here.add(link.fingerprint)
                aliased.add(make_rid(page.outcome.task, link.fingerprint))

        page.notes.append(note)
        return keep

    def find(self, request: Request) -> Alias | None:
        """Return the alias of a request; None if no rule is about it."""
        if request.dont_filter or request.method != "GET" or request.body is not None:
            return None
        return self._aliases.find(canonical(request.url))

    def tell(self, alias: Alias, url: str) -> None:
        """Logs that a link is not fetched, because the task has the page already."""
        identity = alias.rule.identity
        self._logged[identity] += 1
        if self._logged[identity] <= SAMPLES:
            self._say(
                f"{url} is not fetched: it is {alias.key} by the rule of {alias.rule.origin}: "
                f"{alias.rule}"
            )
