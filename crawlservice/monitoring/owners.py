"""Owners: the people and teams of spiders, as their nodes have published them."""

from __future__ import annotations

from contextlib import suppress

from redis import RedisError

from crawlframe.errors import CrawlframeError
from crawlservice.accounts.roles import User
from crawlservice.monitoring.ttl_cache import ttl_cache
from crawlservice.tasks.submit import published_spiders

_last: dict[str, tuple[str, ...]] = {}
MINE = "mine"  # in place of an owner: the user that asks


@ttl_cache(5)
def owners() -> dict[str, tuple[str, ...]]:
    """The owners of each spider that has some, also of one that no node has any more; those known
    last while Redis does not answer."""
    with suppress(RedisError, CrawlframeError):
        known = published_spiders()
        _last.clear()
        _last.update({name: info.owners for name, info in known.items() if info.owners})
    return dict(_last)


def all_owners() -> list[str]:
    """Whoever owns a spider."""
    return sorted({name for names in owners().values() for name in names})


def owners_of(spider: str) -> str:
    """The owners of a spider, as they are shown."""
    return ", ".join(owners().get(spider, ()))


def names_of(user: User) -> set[str]:
    """The owners that a user is: by name, by mail address, and by the groups that he or she is
    in."""
    if not user.is_authenticated:
        return set()
    groups = user.groups.values_list("name", flat=True)
    return {user.get_username(), user.email, *groups} - {""}


def spiders_of(owner: str, user: User) -> list[str]:
    """The spiders of an owner, or of this user for MINE."""
    asked = names_of(user) if owner == MINE else {owner.removeprefix("@")}
    return sorted(spider for spider, names in owners().items() if not asked.isdisjoint(names))
