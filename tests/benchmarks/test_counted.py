from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from benchmarks.lab.counted import BIN, Answered, CountedSite
from benchmarks.lab.tree import CHILDREN, Tree, path_of

TREE = Tree(1 + CHILDREN + CHILDREN * CHILDREN)


@pytest.fixture(scope="module")
def site() -> Iterator[CountedSite]:
    with CountedSite(TREE) as site:
        yield site


def test_a_tree_is_reached_from_its_start_and_served_as_declared(site: CountedSite) -> None:
    waiting, seen = [0], {0}
    while waiting:
        for target in TREE.links(waiting.pop()):
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    assert seen == set(range(TREE.pages))
    for number in (0, 1, 5, TREE.pages - 1):
        with urlopen(site.url + path_of(number).decode()[1:]) as response:
            body = response.read()
        assert body == TREE.page(number)
        links = [path_of(target) for target in TREE.links(number)]
        assert [link for link in links if b'href="%s"' % link in body] == links
    assert len(site.url) + len(TREE.start) in range(88, 93)


def test_answers_are_counted_until_they_are_taken(site: CountedSite) -> None:
    site.take()
    for _ in range(3):
        urlopen(site.url + TREE.start).close()
    for path in (path_of(TREE.pages).decode()[1:], "favicon.ico", ""):
        with pytest.raises(HTTPError, match="404"):
            urlopen(site.url + path)
    answered = site.take()
    assert answered.pages == 3
    assert answered.different == 1
    assert site.take() == Answered({})


def test_a_directory_is_read_when_the_site_starts(tmp_path: Path) -> None:
    site = CountedSite(tmp_path / "root", 0.05)
    (tmp_path / "root" / "a").mkdir(parents=True)
    (tmp_path / "root" / "a" / "b.html").write_text(site.url)
    with site, urlopen(f"{site.url}a/b.html") as response:
        assert response.read().decode() == site.url
        assert response.headers["Content-Type"] == "text/html"


def test_a_steady_rate_leaves_out_the_start_and_the_end() -> None:
    bins = {0: 1, 10: 9, **dict.fromkeys(range(11, 91), 10), 100: 90, 200: 100}
    answered = Answered(bins)
    assert answered.pages == 1000
    assert answered.steady(0.01, 0.81) == pytest.approx(10 / BIN)
    assert Answered({}).steady() == 0.0
    assert Answered({20: 5}).steady() == 0.0
