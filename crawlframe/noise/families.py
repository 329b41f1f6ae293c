"""URLFamilies: URLs that are built alike, found in one pass."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import ConfigError
from crawlframe.noise.template import lcs

MIN_VALUES = 4  # values of a part that differs
AFTER_VALUES = 6  # of one that comes after a part that differs: there are no sections
KINDS = 16  # kinds of pages in a section that has fewer of them: its pages are sorted by them
MANY_VALUES = 32  # values, from which on they are no sections of a site
MEMBERS = 4  # URLs for each value, from which on a few values are sections of a site
MIN_URLS = 3  # URLs of a cluster that joins another where the part differs already
Parts = tuple[str | None, ...]
Word = tuple[str | None, str]  # a section, and the name of a page in it
# An id: a UUID, or at least eight hexadecimal digits with a decimal one among them.
_ID = re.compile(
    r"(?<![A-Za-z0-9])(?:[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
    r"|(?=[A-Fa-f]*[0-9])(?=[0-9]*[A-Fa-f])[0-9a-fA-F]{8,})(?![A-Za-z0-9])"
)
_NUMBER = re.compile(r"[0-9]+")
_ENDING = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
LONGEST_KIND = 16  # characters of a kind
_KIND = re.compile(rf"[A-Za-z_]{{1,{LONGEST_KIND}}}[.:](?=.)")
MAX_URL = 400  # characters of a URL that are compared


class Group(NamedTuple):
    """URLs that can be of one family: ``host``, ``depth`` (parts of the path; the last part counts
    as two, its kind and its name), its ``ending``, and the ``names`` of the query, sorted."""

    host: str
    depth: int
    ending: str
    names: tuple[str, ...]


def parts_of(url: str) -> tuple[Group, tuple[str, ...]]:
    """Returns the group of a normalised URL, and the parts of its path and the values of its query,
    with "0" for numbers and "#" for ids."""
    pieces = url[:MAX_URL].split("/", 3)
    target, _, query = pieces[3].partition("?")
    target = _NUMBER.sub("0", _ID.sub("#", target))
    found = _ENDING.search(target)
    ending = found[0].lower() if found else ""
    parts = target.split("/")
    # Generators put the kind of a page in front of its name: struct.Name.html, Talk:Name.
    name = parts[-1][: len(parts[-1]) - len(ending)]
    kind = _KIND.match(name)
    parts[-1:] = [kind[0], name[kind.end() :]] if kind else ["", name]
    depth = len(parts)
    if not query:
        return Group(pieces[2], depth, ending, ()), tuple(parts)
    query = _NUMBER.sub("0", _ID.sub("#", query))
    pairs = sorted(part.partition("=")[::2] for part in query.split("&") if part)
    names = tuple(dict.fromkeys(name for name, _ in pairs))
    values = tuple(value for _, value in pairs)
    return Group(pieces[2], depth, ending, names), (*parts, *values[: 2 * len(names)])


THRESHOLD = 0.75
LEADERS = 24  # clusters of a group that a URL is compared with
GROUPS = 4_096
FAMILIES = 2_048  # of a group; then the smaller half is forgotten
SHAPES = 4_096  # of a group that are remembered
MAX_CLUSTERS = 24  # new clusters of a group, after which they are merged
VALUES = 3  # different ones in a part of a family, from which on every value fits


class Family:
    """URLs that are built alike. ``group``: common to all of them; ``parts``: of the path and of
    the query, None where they differ; ``size``: how many were added; ``example``: the first URL.

    A family that was merged has the other family in ``merged``."""

    __slots__ = ("example", "group", "leader", "merged", "parts", "size", "values")

    def __init__(self, group: Group, parts: tuple[str, ...], url: str) -> None:
        self.group, self.example = group, url
        self.leader = "/".join(parts)
        self.parts: tuple[str | None, ...] = parts
        self.values: tuple[set[str], ...] = tuple({part} for part in parts)
        self.size = 0
        self.merged: Family | None = None

    def root(self) -> Family:
        """Returns the family that this one was merged into in the end; itself if it was not."""
        family = self
        while family.merged is not None:
            family = family.merged
        return family

    @property
    def pattern(self) -> str:
        """The family in short, such as ``example.com/news/*/*.html?page=*``."""
        shown = ["*" if part is None else part for part in self.parts]
        *path, kind, name = shown[: self.group.depth]
        values = zip(self.group.names, shown[self.group.depth :], strict=False)
        query = "&".join(f"{key}={value}" for key, value in values)
        last = name if kind in ("", "*") and name == "*" else kind + name
        target = "/".join([self.group.host, *path, f"{last}{self.group.ending}"])
        return f"{target}?{query}" if query else target

    def take(self, parts: tuple[str | None, ...]) -> bool:
        """Widens the family so that these parts fit; returns whether it became wider."""
        if parts == self.parts:
            return False
        for known, part in zip(self.values, parts, strict=True):
            if len(known) < VALUES and part is not None:
                known.add(part)
        wider = tuple(
            own if own == part else None for own, part in zip(self.parts, parts, strict=True)
        )
        changed = wider != self.parts
        self.parts = wider
        return changed

    @property
    def is_open(self) -> bool:
        """Whether any value fits where its URLs differ."""
        return None in self.parts and all(
            part is not None or len(known) >= VALUES
            for part, known in zip(self.parts, self.values, strict=True)
        )


class _Bucket:
    """The families of one group."""

    __slots__ = ("families", "leaders", "masks", "open", "shapes", "waiting", "words")

    def __init__(self) -> None:
        self.families: list[Family] = []
        self.leaders: list[Family] = []
        self.shapes: dict[tuple[str, ...], Family] = {}
        self.open: dict[tuple[str | None, ...], Family] = {}
        self.masks: list[tuple[int, ...]] = []  # of open families; few parts that differ first
        self.words: set[tuple[str | None, str]] = set()  # sections, and names that may be kinds
        self.waiting = 0


class URLFamilies:
    """Clusters of URLs, made in one pass over them.

    A URL is compared only with URLs of its host, depth, ending and names of the query. It joins the
    cluster whose first URL is most similar, from ``threshold`` on, by the mean of LCS/|u1| and
    LCS/|u2| (LCS: longest common subsequence); numbers and ids count as equal. Clusters that differ
    in one part, which has many values, are merged into one family. A URL that fits a family in all
    parts that are the same in it joins without a comparison, so the cost of a URL does not grow
    with the number of URLs before it.

    Memory is bounded: the ``groups`` groups used last, and the 2,048 largest families of each.
    Forgotten families start anew. An object is for one thread. Raises ConfigError for limits that
    make no sense, or without the extra ``crawlframe[broad]``."""

    def __init__(self, *, threshold: float = THRESHOLD, groups: int = GROUPS) -> None:
        if not 0 < threshold <= 1:
            raise ConfigError(f"URLFamilies: threshold={threshold!r} must be above 0, at most 1")
        if groups < 1:
            raise ConfigError(f"URLFamilies: groups={groups!r} must be at least 1")
        self._threshold = threshold
        self._length = lcs()
        self._buckets: BoundedDict[Group, _Bucket] = BoundedDict(groups)

    def add(self, url: str) -> Family:
        """Returns the family of a normalised URL, which counts in it. A family that is merged later
        has another ``root``."""
        group, parts = parts_of(url)
        bucket = self._buckets.use(group)
        if bucket is None:
            bucket = self._buckets[group] = _Bucket()
        # The name of a page, with a dot, would be a kind of pages.
        kind, name = parts[group.depth - 2 : group.depth]
        if not kind and len(name) <= LONGEST_KIND and name.isidentifier():
            if len(bucket.words) >= SHAPES:
                bucket.words.clear()
            bucket.words.add((parts[0] if group.depth > 2 else None, name))
        family = self._fitting(bucket, parts)
        if family is None:
            family = self._similar(bucket, parts)
            if family is not None:
                family.take(parts)
                if family.is_open:
                    self._open(bucket, family)
                family = family.root()
            else:
                family = self._new(bucket, Family(group, parts, url))
            if len(bucket.shapes) >= SHAPES:
                bucket.shapes.clear()
            bucket.shapes[parts] = family
        family.size += 1
        # The more there are, the longer merging takes, and the less often it is done.
        if bucket.waiting >= max(MAX_CLUSTERS, len(bucket.families) // 4):
            self._merge(bucket)
            family = family.root()
        return family

    def add_all(self, urls: Iterable[str]) -> list[Family]:
        """Returns the family of each URL, after all merging."""
        families = [self.add(url) for url in urls]
        self.merge()
        return [family.root() for family in families]

    def merge(self) -> None:
        """Merges clusters now, instead of when a group has some new ones."""
        for bucket in self._buckets.values():
            self._merge(bucket)

    def families(self) -> list[Family]:
        """Returns all families."""
        return [
            family
            for bucket in self._buckets.values()
            for family in bucket.families
            if family.merged is None
        ]

    def _fitting(self, bucket: _Bucket, parts: tuple[str, ...]) -> Family | None:
        """The family that the parts fit without a comparison."""
        family = bucket.shapes.get(parts)
        if family is not None:
            return family.root()
        return self._open_for(bucket, parts)

    @staticmethod
    def _open_for(bucket: _Bucket, parts: tuple[str | None, ...]) -> Family | None:
        """The family that takes any value where it differs from these parts."""
        for mask in bucket.masks:
            if len(parts) <= mask[-1]:
                continue
            masked = [*parts]
            for at in mask:
                masked[at] = None
            family = bucket.open.get(tuple(masked))
            if family is not None:
                family = family.root()
                if family.parts != parts:
                    return family
        return None

    def _similar(self, bucket: _Bucket, parts: tuple[str, ...]) -> Family | None:
        """The family whose first URL is most similar."""
        text = "/".join(parts)
        size, best, most = len(text), None, self._threshold
        for family in bucket.leaders:
            leader = family.leader
            # The similarity is at least most if LCS is at least this.
            least = int(2 * most / (1 / (size or 1) + 1 / (len(leader) or 1)))
            common = self._length(text, leader, score_cutoff=least)
            if common and self._can_join(family, parts):
                similarity = (common / size + common / len(leader)) / 2
                if similarity >= most:
                    best, most = family, similarity
        return best.root() if best is not None else None

    @staticmethod
    def _can_join(family: Family, parts: tuple[str, ...]) -> bool:
        """Whether section and kind are the same; only merging makes one of several."""
        own = family.parts
        kind = family.group.depth - 2
        return (
            len(own) == len(parts)
            and own[kind] in (None, parts[kind])
            and own[0] in (None, parts[0])
        )

    def _new(self, bucket: _Bucket, family: Family) -> Family:
        bucket.families.append(family)
        bucket.leaders.append(family)
        if len(bucket.leaders) > LEADERS:
            # The leader with the fewest URLs is found by its parts from now on, or starts anew.
            bucket.leaders.remove(min(bucket.leaders[:-1], key=lambda one: one.size))
        bucket.waiting += 1
        return family

    def _open(self, bucket: _Bucket, family: Family) -> None:
        known = bucket.open.setdefault(family.parts, family)
        if known.root() is not family:
            self._unite(known.root(), family)
        mask = tuple(at for at, part in enumerate(family.parts) if part is None)
        if mask not in bucket.masks:
            bucket.masks = sorted([*bucket.masks, mask], key=len)

    def _merge(self, bucket: _Bucket) -> None:
        bucket.waiting = 0
        bucket.families = [one for one in bucket.families if one.merged is None]
        for parts, merged in mergers(
            [(one.parts, one.size) for one in bucket.families], bucket.words
        ):
            ones = [bucket.families[index].root() for index in merged]
            into = max(ones, key=lambda one: one.size)
            for one in ones:
                if one is not into:
                    self._unite(into, one)
            into.take(parts)
            into.values = tuple(
                {str(n) for n in range(VALUES)} if part is None else known
                for part, known in zip(into.parts, into.values, strict=True)
            )
            self._open(bucket, into)
        for one in bucket.families:
            if one.merged is None:
                wider = self._open_for(bucket, one.parts)
                if wider is not None and one.size <= max(MIN_URLS, wider.size):
                    self._unite(wider, one)
        bucket.families = [one for one in bucket.families if one.merged is None]
        if len(bucket.families) > FAMILIES:
            bucket.families = sorted(bucket.families, key=lambda one: one.size)[-FAMILIES // 2 :]
            kept = set(bucket.families)
            bucket.leaders = [one for one in bucket.leaders if one in kept]
            bucket.open = {parts: one for parts, one in bucket.open.items() if one.root() in kept}
            bucket.shapes.clear()
        bucket.leaders = sorted(
            (one for one in bucket.leaders if one.merged is None), key=lambda one: one.size
        )[-LEADERS // 2 :]

    def _unite(self, into: Family, other: Family) -> None:
        if into is other:
            return
        other.merged = into
        into.size += other.size
        other.size = 0
        into.take(other.parts)


def mergers(
    clusters: Sequence[tuple[Parts, int]], words: Collection[Word] = ()
) -> Iterator[tuple[Parts, list[int]]]:
    """Yields the parts of new families, and the indices of the clusters that they are made of. A
    cluster has its parts, None where its URLs differ, and its number of URLs. ``words``: names of
    pages; where such a name stands in front of dots, as email in email.message, it is a module, not
    a kind of pages.

    The last part is looked at first: in most sites it differs, and the first part names a
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
    # A cluster that is rare in several parts differs from all others in more than one of them.
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
    """The clusters that are one family, out of clusters that differ in this part only. ``kinds``:
    in this section the part is one of a few kinds of pages, as of rustdoc (struct., fn.)."""
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
