"""Which clusters of URLs are one family: those that differ in one part, if that has many values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

MIN_VALUES = 4  # values of a part that differs
AFTER_VALUES = 6  # of one that comes after a part that differs: there are no sections
KINDS = 16  # fewer kinds of pages in a section are what pages are sorted by
MANY_VALUES = 32  # values, from which on they are no sections of a site
MEMBERS = 4  # URLs for each value, from which on a few values are sections of a site
MIN_URLS = 3  # URLs of a cluster that joins one in which the part differs already

Parts = tuple[str | None, ...]
Word = tuple[str | None, str]  # a section, and the name of a page in it


def mergers(
    clusters: Sequence[tuple[Parts, int]], words: Collection[Word] = ()
) -> Iterator[tuple[Parts, list[int]]]:
    """Yields the parts of new families, and the indices of the clusters that they are made of.
    A cluster has its parts, None where its URLs differ, and its number of URLs. ``words``: names of
    pages; where they are what stands in front of dots, as email is of email.message, these are
    names of modules, not kinds of pages.

    The last part is looked at first: in most sites it is what differs, and the first one names a
    section."""
    now: dict[int, tuple[Parts, int]] = dict(enumerate(clusters))
    members: dict[int, list[int]] = {index: [index] for index in now}
    changed: dict[int, None] = {}
    most = max((len(parts) for parts, _ in clusters), default=0)
    for at in reversed(range(most)):
        kinds = _kinds(at, [parts for parts, _ in now.values()])
        alike: dict[Parts, list[int]] = defaultdict(list)
        for index, (parts, _) in now.items():
            if at < len(parts):
                alike[(*parts[:at], None, *parts[at + 1 :])].append(index)
        for parts, indices in alike.items():
            section = parts[0] if at else None
            found = kinds.get(section, set())
            if found and 2 * sum((section, kind[:-1]) in words for kind in found) >= len(found):
                chosen = indices
            else:
                few = 0 < len(found) < KINDS
                chosen = _chosen(at, [(index, *now[index]) for index in indices], few)
            if len(chosen) < 2:
                continue
            into, *others = chosen
            size = sum(now[index][1] for index in chosen)
            for index in others:
                members[into] += members.pop(index)
                del now[index]
                changed.pop(index, None)
            now[into] = parts, size
            changed[into] = None
    # What is rare in several parts at once differs from all others in more than one of them.
    small = {index: parts for index, (parts, size) in now.items() if size <= MIN_URLS}
    rare: dict[Parts, list[int]] = defaultdict(list)
    columns = _rare_columns([*small.values()])
    for index, parts in small.items():
        rare[
            tuple(None if (len(parts), at) in columns else part for at, part in enumerate(parts))
        ].append(index)
    for parts, indices in rare.items():
        if len(indices) >= MIN_VALUES:
            into, *others = indices
            for index in others:
                members[into] += members.pop(index)
                changed.pop(index, None)
            now[into] = parts, 0
            changed[into] = None
    for index in changed:
        yield now[index][0], members[index]


def _kinds(at: int, clusters: Sequence[Parts]) -> dict[str | None, set[str]]:
    """The different kinds of pages in this part, by section, where there are any."""
    found: dict[str | None, set[str]] = defaultdict(set)
    for parts in clusters:
        if at < len(parts) and (parts[at] or "").endswith((".", ":")):
            found[parts[0] if at else None].add(parts[at] or "")
    return found


def _rare_columns(clusters: Sequence[Parts]) -> set[tuple[int, int]]:
    """Length and position of parts that have many values, few times each."""
    values: dict[tuple[int, int], set[str]] = defaultdict(set)
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for parts in clusters:
        for at, part in enumerate(parts):
            if part is not None:
                values[len(parts), at].add(part)
                counts[len(parts), at] += 1
    return {
        column
        for column, found in values.items()
        if len(found) >= MANY_VALUES and counts[column] < MEMBERS * len(found)
    }


def _chosen(at: int, alike: list[tuple[int, Parts, int]], kinds: bool) -> list[int]:
    """Of clusters that differ in this part only, those that are one family. ``kinds``: in this
    section the part is one of a few kinds of pages, as of rustdoc (struct., fn.)."""
    if len(alike) < 2:
        return []
    closed = [(index, size) for index, parts, size in alike if parts[at] is not None]
    wide = [index for index, parts, _ in alike if parts[at] is None]
    widest = max((size for _, parts, size in alike if parts[at] is None), default=0)
    size = sum(size for _, size in closed)
    after = any(map(_differs, alike[0][1][:at]))
    enough = len(closed) >= (AFTER_VALUES if after and not kinds else MANY_VALUES)
    if enough or (len(closed) >= MIN_VALUES and size < MEMBERS * len(closed) and not kinds):
        return [*wide, *(index for index, _ in closed)]
    if wide:
        return [*wide, *(index for index, size in closed if size <= max(MIN_URLS, widest))]
    return []


def _differs(part: str | None) -> bool:
    """Whether a part differs within a family, or would without its numbers and ids."""
    return part is None or (part != "" and not any(map(str.isalpha, part)))
