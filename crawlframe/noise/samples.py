"""NoiseFamilies: families of URLs that are noise, known from a few samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from crawlframe.base.bounded_dict import BoundedDict
from crawlframe.errors import ConfigError
from crawlframe.noise.families import Family, URLFamilies
from crawlframe.noise.page import PageLinks
from crawlframe.noise.template import similarity

FAMILY, SIMILAR, NAMES, OUTLIER = "family", "similar family", "query names", "outlier"
SHARE = 0.8  # of the samples of a family
SAMPLES = 2  # of noise in a family
MIN_SIMILARITY = 0.9  # similarity of a family without samples to one that is noise
DEVIATION = 0.5  # times the length of the family's first URL
HOSTS = 1_000
NAMES_OF_HOST = 1_000
MAX_FAMILIES = 20_000  # families


class NoiseFamilies:
    """A filter that spreads samples of noise over families of URLs.

    ``sample`` names URLs that are noise, and URLs that are not: from the operator, or from another
    filter. A family is noise if at least ``samples`` of its samples are, and ``share`` of them. A
    family without samples is noise if it is as similar to a family of noise as ``alike`` says. Any
    family is, if a name of its query is in samples of noise of its host, in that share of them, and
    no name is unknown: an id of sessions, or a facet. With ``outliers``, a URL that is far longer
    than its family's is noise, too, such as a URL with its path repeated.

    Each added sample counts as a URL of the site, so memory is bounded as in URLFamilies. An object
    is for one thread. Raises ConfigError for limits that make no sense, or without the extra
    ``crawlframe[broad]``."""

    def __init__(
        self,
        families: URLFamilies | None = None,
        *,
        share: float = SHARE,
        samples: int = SAMPLES,
        alike: float = MIN_SIMILARITY,
        outliers: bool = False,
    ) -> None:
        if not 0.5 < share <= 1:
            raise ConfigError(f"NoiseFamilies: share={share!r} must be above 0.5, at most 1")
        if samples < 1:
            raise ConfigError(f"NoiseFamilies: samples={samples!r} must be at least 1")
        if not 0.5 < alike <= 1:
            raise ConfigError(f"NoiseFamilies: alike={alike!r} must be above 0.5, at most 1")
        self.families = families if families is not None else URLFamilies()
        self._share, self._samples, self._alike = share, samples, alike
        self._outliers = outliers
        self._counts: dict[Family, list[int]] = {}  # of noise, of others
        # Samples of a host with each name of a query: of noise, of others.
        self._names: BoundedDict[str, tuple[Counter[str], Counter[str]]] = BoundedDict(HOSTS)
        self._alike_to: dict[tuple[object, ...], list[Family]] = {}

    def sample(self, url: str, *, noise: bool) -> None:
        """Takes a normalised URL that is known to be noise, or not to be."""
        family = self.families.add(url)
        if family not in self._counts:
            self._counts[family] = [0, 0]
            self._alike_to.setdefault(_kind(family), []).append(family)
            if len(self._counts) > MAX_FAMILIES:
                oldest = next(iter(self._counts))
                del self._counts[oldest]
                self._alike_to[_kind(oldest)].remove(oldest)
        self._counts[family][not noise] += 1
        host = family.group.host
        if (names := self._names.use(host)) is None:
            names = self._names[host] = Counter(), Counter()
        counter = names[not noise]
        if len(counter) < NAMES_OF_HOST:
            counter.update(family.group.names)

    def reason(self, url: str, family: Family | None = None) -> str:
        """Returns why a normalised URL is noise: "family", "similar family", "query names" or
        "outlier"; "" if it is not. ``family`` is its family, if that is known."""
        family = (family or self.families.add(url)).root()
        noise, others = self._sampled().get(family, (0, 0))
        if self._is_noise(noise, others):
            return FAMILY
        if self._has_noise_names(family):
            return NAMES
        if not noise + others and self._is_like_noise(family):
            return SIMILAR
        return OUTLIER if self._outliers and self._deviates(url, family) else ""

    def reasons(self, page: PageLinks) -> Sequence[str]:
        """Returns the reason of each link of a page, and adds the links to the families."""
        return [self.reason(anchor.url) for anchor in page.anchors]

    def noise(self) -> dict[Family, str]:
        """Returns the families that are noise now, with the reason of each."""
        found = {}
        for family in self.families.families():
            if reason := self.reason(family.example, family):
                found[family] = reason
        return found

    def _sampled(self) -> dict[Family, list[int]]:
        """The samples of each family. Families that were merged since they were counted are one."""
        if any(family.merged is not None for family in self._counts):
            counts: dict[Family, list[int]] = {}
            self._alike_to = {}
            for family, (noise, others) in self._counts.items():
                root = family.root()
                if root not in counts:
                    counts[root] = [0, 0]
                    self._alike_to.setdefault(_kind(root), []).append(root)
                counts[root][0] += noise
                counts[root][1] += others
            self._counts = counts
        return self._counts

    def _has_noise_names(self, family: Family) -> bool:
        """Whether a name of the query means noise on this host, and none is unknown."""
        names = family.group.names
        known = self._names.get(family.group.host) if names else None
        if known is None:
            return False
        noise, content = known
        if any(not noise[name] and not content[name] for name in names):
            return False
        return any(self._is_noise(noise[name], content[name]) for name in names)

    def _is_noise(self, noise: int, others: int) -> bool:
        return noise >= self._samples and noise >= self._share * (noise + others)

    def _is_like_noise(self, family: Family) -> bool:
        """Whether a family is similar enough to a family that is noise, and to no other."""
        best, is_noise = 0.0, False
        counts = self._sampled()
        for other in self._alike_to.get(_kind(family), ()):
            alike = similarity(family.leader, other.leader)
            if alike > best:
                best, is_noise = alike, self._is_noise(*counts[other])
        return is_noise and best >= self._alike

    def _deviates(self, url: str, family: Family) -> bool:
        return len(url) > len(family.example) * (1 + DEVIATION) + 16 and (
            similarity(url, family.example) < self._alike
        )


def _kind(family: Family) -> tuple[object, ...]:
    """Families that can be compared."""
    return family.group.host, family.group.names
