"""Budgets: the settings that bound a task's fetches, and the reasons for which its links are not
followed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec

from crawlframe.base.ranks import Everyday, Tuning

T = TypeVar("T")
NotNegative = Annotated[T, msgspec.Meta(ge=0)]
UNFOLLOWED = "unfollowed/"  # precedes the reasons for which links were not followed, in stats

# Reasons for which a link is not followed: the setting that says so.
PAGE_LIMIT = "page_limit"
HOST_PAGE_LIMIT = "host_page_limit"
HOST_BYTE_LIMIT = "host_byte_limit"
DEPTH_LIMIT = "depth_limit"
LAYERS = "layers"
LINKS_PER_PAGE = "links_per_page"
URL_LENGTH = "url_length"
REPEATED_SEGMENTS = "repeated_segments"
QUERY_PERMUTATIONS = "query_permutations"
TRAP = "trap"
NOFOLLOW = "nofollow"  # obey_nofollow
TEMPLATE = "template"  # denoise
ALIAS = "alias"  # aliases
# Reasons for which a task is closed.
BYTE_LIMIT = "byte_limit"
TIME_LIMIT = "time_limit"


class Budgets(msgspec.Struct, frozen=True):
    """Settings of a spider that bound its tasks. 0 or None: no limit."""

    byte_limit: NotNegative[int] = 0  # bytes of the bodies of a task's pages
    time_limit: Everyday[NotNegative[float]] = 0.0  # seconds from submission, without pauses
    host_page_limit: NotNegative[int] = 0  # requests admitted per task and host
    host_byte_limit: NotNegative[int] = 0  # bytes of the bodies per task and host
    links_per_page: NotNegative[int] = 0  # requests taken from one page
    url_length: Tuning[NotNegative[int]] = (
        2083  # characters; the longest URL that Internet Explorer took
    )
    repeated_segments: Tuning[NotNegative[int]] = 3  # of one segment in a path of more than eight
    query_permutations: Tuning[NotNegative[int]] = 0  # different sets of query names with one path
    traps: Literal["report", "stop", "off"] = "report"  # many URLs that bring nothing new


LIMITS = (
    "page_limit", "depth_limit", *(name for name in Budgets.__struct_fields__ if name != "traps"),
)  # fmt: skip


def without_none(given: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return settings with 0 for every limit that is None."""
    return {key: 0 if value is None and key in LIMITS else value for key, value in given.items()}


@dataclass(slots=True)
class ByteBudget:
    """Limits in bytes for the bodies of one task; 0 = no limit. ``spent``: bytes of each host over
    the cluster, as this worker last learned."""

    limit: int
    host_limit: int
    spent: dict[str, int] = field(default_factory=dict)

    def is_spent(self, host: str) -> bool:
        return 0 < self.host_limit <= self.spent.get(host, 0)


class TrapSighting(NamedTuple):
    """Further pages of a possible trap. ``template`` stands for all its URLs; ``pages`` were
    fetched since the last sighting; ``contents`` is how many were different, of all."""

    template: str
    pages: int
    contents: int
