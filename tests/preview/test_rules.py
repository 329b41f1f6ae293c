"""Rules of preview.toml, and the differences that are errors by them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawlframe.preview.comparison import SpiderComparison, Tally
from crawlframe.preview.rules import PreviewRules, RulesError

Times = tuple[float, float]


def spider(parts: dict[str, Tally], times: Times = (0.001, 0.001)) -> SpiderComparison:
    found = SpiderComparison("shop", pages=10, seconds=([times[0]], [times[1]]))
    found.parts = parts
    return found


LOST = {"items.price": Tally(unchanged=8, lost=2)}


@pytest.mark.parametrize(
    ("rules", "parts", "texts"),
    [
        ({}, LOST, ["shop.price: lost 2 of 10"]),
        ({}, {"items.price": Tally(changed=2, gained=3)}, []),
        ({}, {"requests": Tally(lost=2)}, []),
        ({}, {"items": Tally(unchanged=1, lost=2)}, ["shop.items: lost 2 of 3"]),
        ({}, {"errors": Tally(gained=2)}, ["shop.errors: new on 2 of 10 pages"]),
        ({}, {"errors": Tally(lost=2)}, []),
        (
            {"fail": ("links",)},
            {"requests": Tally(unchanged=2, lost=2)},
            ["shop.links: lost 2 of 4"],
        ),
        ({"fail": ("changed",)}, {"stats": Tally(changed=1)}, ["shop.stats: changed 1 of 1"]),
        ({"fail": ()}, LOST | {"errors": Tally(gained=1)}, []),
        ({"only": ("*.title",)}, LOST, []),
        ({"only": ("*.title",)}, {"items": Tally(lost=1)}, ["shop.items: lost 1 of 1"]),
        ({"only": ("shop.pri*",)}, LOST, ["shop.price: lost 2 of 10"]),
        ({"share": 0.2}, LOST, []),
        ({"share": 0.19}, LOST, ["shop.price: lost 2 of 10"]),
    ],
)
def test_regressions(rules: dict[str, Any], parts: dict[str, Tally], texts: list[str]) -> None:
    assert [str(one) for one in PreviewRules(**rules).regressions(spider(parts))] == texts


def test_slower_pages_are_errors_if_that_is_a_rule() -> None:
    slow = spider({}, (0.010, 0.030))
    assert PreviewRules().regressions(slow) == []
    [found] = PreviewRules(fail=("slower",)).regressions(slow)
    assert str(found) == "shop: a page takes 30.0 ms, before 10.0 ms"
    assert PreviewRules(fail=("slower",)).regressions(spider({}, (0.0001, 0.004))) == []


def test_a_spider_that_could_not_be_compared_is_an_error() -> None:
    found = SpiderComparison("shop", problem="it is gone")
    assert [str(one) for one in PreviewRules().regressions(found)] == ["shop: it is gone"]


def test_patterns_of_what_is_not_compared() -> None:
    ignores = PreviewRules(ignore=("*.scraped_at", "shop.links", "old*")).ignores
    assert ignores("shop")("items.scraped_at")
    assert ignores("shop")("requests")
    assert not ignores("shop")("items.price")
    assert ignores("old_shop")("errors")


def test_the_file(tmp_path: Path) -> None:
    assert PreviewRules.read(None) == PreviewRules.read(tmp_path) == PreviewRules()
    path = tmp_path / "preview.toml"
    path.write_text('fail = ["lost", "links"]\nshare = 0.01\n')
    assert PreviewRules.read(tmp_path) == PreviewRules(fail=("lost", "links"), share=0.01)


@pytest.mark.parametrize("text", ['fails = ["lost"]', 'fail = ["loss"]', "share = 1 %", "\xff"])
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "preview.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RulesError, match=r"preview.toml: .*it may have fail, only"):
        PreviewRules.read(tmp_path)
