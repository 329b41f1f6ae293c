"""Modules that are dropped are freed, alone."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe.code.garbage import drop

SHOP = """
import logging
from parts.base import Part, keep

log = logging.getLogger(__name__)

class Shop(Part):
    def parse(self):
        return helper()

def helper():
    return Shop

Shop.again = Shop
"""
BASE = """
class Part:
    pass

kept = []

def keep(function):
    kept.append(function)
    return function
"""


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of two modules, of which one can be changed."""
    (package := tmp_path / "parts").mkdir()
    (package / "__init__.py").touch()
    (package / "base.py").write_text(BASE)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield package
    for name in [name for name in sys.modules if name.split(".")[0] == "parts"]:
        del sys.modules[name]
    gc.unfreeze()
    gc.collect()


def loaded(package: Path, text: str) -> None:
    (package / "shop.py").write_text(text)
    importlib.import_module("parts.shop")


def base() -> Any:
    return sys.modules["parts.base"]


def test_a_dropped_class_is_no_subclass_any_more(parts: Path) -> None:
    loaded(parts, SHOP)
    assert [kind.__name__ for kind in base().Part.__subclasses__()] == ["Shop"]
    assert drop({"parts.shop"}) == []
    assert base().Part.__subclasses__() == []
    assert not hasattr(sys.modules["parts"], "shop")


def test_it_is_freed_if_it_was_frozen_with_all_others(parts: Path) -> None:
    loaded(parts, SHOP)
    gc.freeze()
    assert drop({"parts.shop"}) == []
    assert base().Part.__subclasses__() == []


def test_only_its_objects_are_looked_at(parts: Path) -> None:
    others = [{number: [number]} for number in range(50_000)]
    loaded(parts, SHOP)
    drop({"parts.shop"})
    assert gc.get_freeze_count() > len(others)
    assert len(gc.get_objects()) < 5_000


@pytest.mark.parametrize(
    "change",
    ["keep(helper)", "keep(Shop())", "keep(lambda: 1)", "keep([Shop.parse])"],
    ids=["function", "instance", "lambda", "method"],
)
def test_a_module_to_which_another_refers_is_named(parts: Path, change: str) -> None:
    loaded(parts, f"{SHOP}\n{change}\n")
    assert drop({"parts.shop"}) == ["parts.shop"]


def test_garbage_that_was_frozen_does_not_hold_it(parts: Path) -> None:
    loaded(parts, SHOP)
    ring: list[Any] = [sys.modules["parts.shop"]]
    ring.append(ring)
    gc.freeze()
    del ring
    assert drop({"parts.shop"}) == []
    assert base().Part.__subclasses__() == []


def test_modules_that_refer_to_each_other_are_freed_together(parts: Path) -> None:
    (parts / "other.py").write_text("from parts import shop\n\nclass Other: kind = shop.Shop\n")
    loaded(parts, SHOP)
    importlib.import_module("parts.other")
    sys.modules["parts.shop"].other = sys.modules["parts.other"]  # type: ignore[attr-defined]
    assert drop({"parts.shop", "parts.other", "parts.missing"}) == []
    assert base().Part.__subclasses__() == []


def test_a_module_that_is_needed_alone_stays(parts: Path) -> None:
    loaded(parts, SHOP)
    assert drop({"parts.base"}) == ["parts.base"]
