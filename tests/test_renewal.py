"""Renewal: what is imported again, and that its result is that of importing everything."""

from __future__ import annotations

import gc
import random
import sys
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crawlframe.code.registry import NotRenewable, Registry
from crawlframe.code.source import SourceFinder
from crawlframe.recipes.loading import RecipeFiles

SHARED = """
import collections
import types

LOADED, NAMES, VALUE, HOOK = [], {"old": 1, "list": []}, 1, None
COUNTS, CONF = collections.Counter(a=1), types.SimpleNamespace(delay=1, deep={"one": [1]})

def note(thing):
    LOADED.append(thing)

def count():
    global VALUE
    VALUE += 1

class Field:
    number, settings = 0, {"delay": 1}

    def __init_subclass__(cls):
        Field.number += 1
"""
PLAIN = "from crawlframe import Spider\nclass Some(Spider):\n    name = '{0}'\n    doc = {1!r}\n"


class Package:
    """A package of spiders on disk, and its registry."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.imported: list[str] = []
        self.registry: Registry | None = None

    def write(self, **sources: str | None) -> None:
        """Writes modules; None deletes one. A double underscore stands for a slash."""
        for name, source in sources.items():
            path = self.directory / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            if source is None:
                path.unlink()
            else:
                path.write_text(source)
        time.sleep(0.03)  # stamps of files that are older count

    def load(self, **sources: str) -> Registry:
        self.write(**sources)
        self.registry = Registry.load(
            self.directory, sources=[RecipeFiles()], trace=True, limit=10.0
        )
        return self.registry

    def renew(self, **sources: str | None) -> set[str]:
        """Returns the modules that were imported again. Raises NotRenewable."""
        assert self.registry is not None
        self.write(**sources)
        imported: list[str] = []
        self.registry.renew([RecipeFiles()], limit=10.0, loading=imported.append)
        return {name.removeprefix("shops.") for name in imported}

    def reload(self) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shops"]:
            del sys.modules[name]
        self.load()

    def state(self) -> tuple[object, object]:
        """The values in all modules, and those that are broken."""
        assert self.registry is not None
        values = {
            name: {key: value for key, value in vars(module).items() if key[0] in "OSo"}
            for name, module in sys.modules.items()
            if name.startswith("shops.")
        }
        return values, self.registry.broken.keys()

    def attribute(self, module: str, name: str) -> Any:
        return getattr(sys.modules[f"shops.{module}"], name)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    path, modules = [*sys.path], {*sys.modules}
    others = [finder for finder in sys.meta_path if not isinstance(finder, SourceFinder)]
    monkeypatch.setattr(sys, "meta_path", others)
    yield Package(tmp_path / "shops")
    sys.path[:] = path
    for name in sys.modules.keys() - modules:
        del sys.modules[name]


def plain(name: str, doc: object = 1) -> str:
    return PLAIN.format(name, doc)


def others(count: int) -> dict[str, str]:
    """Modules that have nothing to do with the change."""
    return {f"other{number}": plain(f"other{number}") for number in range(count)}


def test_only_a_changed_module_is_imported_again(package: Package) -> None:
    registry = package.load(**others(4), shop=plain("shop"))
    kept = registry.spiders["other0"]
    assert package.renew(shop=plain("shop", 2)) == {"shop"}
    assert registry.spiders["shop"].doc == 2  # type: ignore[attr-defined]
    assert registry.spiders["other0"] is kept
    assert [info.name for info in registry.infos] == sorted([*others(4), "shop"])
    assert package.renew(shop=plain("renamed", 3)) == {"shop"}
    assert registry.spiders.keys() == {*others(4), "renamed"}


def test_the_renewed_spiders_are_known(package: Package) -> None:
    registry = package.load(
        **others(6), base="VALUE = 1", shop=f"import shops.base\n{plain('shop')}"
    )
    assert registry.renewed is None
    package.renew(base="VALUE = 2")
    assert registry.renewed == ["shop"]
    package.renew()
    assert registry.renewed == []


def test_nothing_is_imported_when_nothing_has_changed(package: Package) -> None:
    package.load(**others(2), shop=plain("shop"))
    assert package.renew(shop=plain("shop")) == set()


def test_modules_that_depend_on_a_change_are_imported_again(package: Package) -> None:
    package.load(
        **others(6),
        base="VALUE = 1",
        middle="from shops.base import VALUE",
        far="from importlib import import_module\nV = import_module('shops.middle').VALUE",
        near="from . import base\nV = base.VALUE",
        inside="def f():\n    from shops import base\n    return base.VALUE",
    )
    assert package.renew(base="VALUE = 2") == {"base", "middle", "far", "near"}
    assert package.attribute("far", "V") == package.attribute("near", "V") == 2
    assert package.attribute("inside", "f")() == 2


def test_a_module_outside_the_package_is_code_too(package: Package, tmp_path: Path) -> None:
    helper = tmp_path / "helper_of_shops.py"
    helper.write_text("VALUE = 1")
    package.load(**others(3), shop="import helper_of_shops\nV = helper_of_shops.VALUE")
    assert package.registry is not None
    assert package.registry.files == [helper]
    helper.write_text("VALUE = 2")
    assert package.renew() == {"shop"}
    assert package.attribute("shop", "V") == 2
    assert package.registry.files == [helper]


def test_modules_come_go_and_move(package: Package) -> None:
    registry = package.load(**others(4), shop=plain("shop"), north__one=plain("one"))
    assert package.renew(new=plain("new")) == {"new"}
    assert package.renew(shop=None) == set()
    assert "shops.shop" not in sys.modules
    assert not hasattr(sys.modules["shops"], "shop")
    assert package.renew(north__one=None, north__two=plain("one", 2)) == {"north.two"}
    assert registry.spiders.keys() == {*others(4), "new", "one"}


def test_an_import_that_failed_is_tried_again(package: Package) -> None:
    optional = "try:\n    from shops.extra import X\nexcept ImportError:\n    X = 0\n"
    registry = package.load(**others(6), shop=optional, bad="import shops.later", worse="def(")
    assert registry.broken.keys() == {"shops.bad", "shops.worse"}
    assert package.renew(extra="X = 5", later="", worse="") == {
        *("extra", "later", "shop", "bad", "worse")
    }
    assert package.attribute("shop", "X") == 5
    assert not registry.broken


def test_a_registry_without_some_modules_is_not_renewed(package: Package) -> None:
    assert package.load(shop=plain("shop")).renewable
    assert not Registry.load(package.directory / "none", trace=True).renewable
    assert not Registry.load(
        package.directory, skip={"shops.shop": "it died"}, trace=True
    ).renewable


def test_a_broken_change_is_reported_as_by_a_load(package: Package) -> None:
    registry = package.load(**others(4), shop=plain("shop"), user="from shops.shop import Some")
    package.renew(shop="from crawlframe import Spider\ndef(\n")
    assert registry.broken.keys() == {"shops.shop", "shops.user"}
    assert "shop.py:2: SyntaxError" in registry.broken["shops.shop"]
    assert registry.spiders.keys() == others(4).keys()
    package.renew(shop=plain("shop"))
    assert not registry.broken
    assert "shop" in registry.spiders
    with pytest.raises(NotRenewable, match="an import failed"):
        package.renew(shop="1 / 0")


def test_a_module_that_names_another_without_importing_it(package: Package) -> None:
    package.load(
        **others(12),
        base="VALUE = 1",
        user="import shops.base",
        attribute="import shops\nimport shops.user\nV = shops.base.VALUE",
        text="import sys\nimport shops.base\nV = sys.modules['shops.base'].VALUE",
        again="V = __import__('shops.base', fromlist=['VALUE']).VALUE",
        subclasses="from shops.other0 import Some\nV = Some.__subclasses__()",
    )
    assert package.renew(base="VALUE = 2") >= {"base", "attribute", "text", "again", "subclasses"}
    for name in ("attribute", "text", "again"):
        assert package.attribute(name, "V") == 2


def test_what_was_missing_and_exists_now_needs_a_load(package: Package, tmp_path: Path) -> None:
    optional = "try:\n    import conf_of_shops as conf\nexcept ImportError:\n    conf = None"
    package.load(**others(4), shop=optional)
    assert package.renew(other0="") == {"other0"}
    (tmp_path / "conf_of_shops.py").write_text("")
    with pytest.raises(NotRenewable, match="conf_of_shops was missing"):
        package.renew()


def test_what_cannot_be_done_twice_needs_a_load(package: Package) -> None:
    once = "import sys\nassert not hasattr(sys, 'shop_of_tests')\nsys.shop_of_tests = {}\n"
    package.load(**others(4), shop=once)
    try:
        with pytest.raises(NotRenewable, match="an import failed"):
            package.renew(shop=f"{once}X = 1\n")
    finally:
        del sys.shop_of_tests  # type: ignore[attr-defined]


def test_a_module_may_become_a_package(package: Package) -> None:
    package.load(**others(4), shop="V = 1")
    (package.directory / "shop").mkdir()
    (package.directory / "shop" / "__init__.py").write_text("V = 2")
    assert package.renew(shop=None) == {"shop"}
    assert package.attribute("shop", "V") == 2


def test_a_name_that_two_spiders_use_is_refused_until_one_changes(package: Package) -> None:
    registry = package.load(**others(4), one=plain("same"), two=plain("two"))
    package.renew(two=plain("same"))
    assert "used by" in registry.broken["shops.two"]
    assert "same" not in registry.spiders
    package.renew(two=plain("two"))
    assert {"same", "two"} <= registry.spiders.keys()
    assert not registry.broken


def test_a_module_that_lists_modules_is_imported_again_when_one_comes(package: Package) -> None:
    finds = (
        "import pkgutil, shops\n"
        "NAMES = sorted(m.name for m in pkgutil.iter_modules(shops.__path__))"
    )
    package.load(**others(4), index=finds)
    assert package.renew(new="") == {"new", "index"}
    assert "new" in package.attribute("index", "NAMES")


NOT_ALONE = {
    "a class in a list": ("from shops.shared import note\nclass A: pass\nnote(A)", "A"),
    "a word in a list": ("from shops.shared import note\nnote('word')", "word"),
    "a key of a dict": ("import shops.shared as s\ns.NAMES['shop'] = 1", "key"),
    "a value of a dict": ("import shops.shared as s\ns.NAMES['old'] = 30", "value"),
    "a list in a dict": ("import shops.shared as s\ns.NAMES['list'].append('x')", "list"),
    "a name of a module": ("import shops.shared as s\ns.VALUE = 30", "name"),
    "a global counter": ("from shops.shared import count\ncount()", "counter"),
    "a counter": ("import shops.shared as s\ns.COUNTS['a'] += 1", "counter"),
    "an attribute": ("import shops.shared as s\ns.CONF.delay = 5", "attribute"),
    "something deep": ("import shops.shared as s\ns.CONF.deep['one'][0] = 2", "deep"),
    "a setting of a class": (
        "from shops.shared import Field\nField.settings['delay'] = 9", "setting"),
    "a count of subclasses": (
        "from shops.shared import Field\nclass Mine(Field): pass", "subclass"),
    "a lambda": ("import shops.shared as s\ns.HOOK = lambda: 1", "lambda"),
    "a handler of a log": (
        "import logging\nlogging.getLogger('shop of tests').addHandler(logging.NullHandler())",
        "log"),
    "a limit of a library": (
        "import csv\ncsv.field_size_limit(csv.field_size_limit() + 1)", "limit"),
    "another module's function": (
        "import shops.shared as s\ndef mine(x): pass\ns.note = mine", "patch"),
    "the environment": ("import os\nos.environ['SHOP_RATE'] = '5'", "environment"),
    "the search path": ("import sys\nsys.path.append('/nowhere/shops')", "path"),
    "a hook at the exit": ("import atexit\ndef end(): pass\natexit.register(end)", "exit"),
    "an open file": ("import os\nfiles = os.pipe()", "file"),
    "a finalizer": ("import weakref\nclass A: pass\na = A()\nweakref.finalize(a, len, ())", "end"),
    "a destructor": ("class A:\n    def __del__(self): pass", "destructor"),
    "a subclass that its base knows": (
        "from shops.base import Base\nclass Sub(Base): pass", "subclass"),
}  # fmt: skip


@pytest.mark.parametrize("source", [one for one, _ in NOT_ALONE.values()], ids=NOT_ALONE)
def test_a_module_with_effects_elsewhere_is_not_replaced(
    package: Package, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("SHOP_RATE", "1")
    base = (
        "ALL = {}\nclass Base:\n    def __init_subclass__(cls):\n        ALL[cls.__name__] = cls\n"
    )
    package.load(**others(6), shared=SHARED, base=base, shop=source)
    with pytest.raises(NotRenewable):
        package.renew(shop="")


@pytest.mark.parametrize("source", [one for one, _ in NOT_ALONE.values()], ids=NOT_ALONE)
def test_new_code_with_effects_elsewhere_is_not_live(
    package: Package, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.setenv("SHOP_RATE", "1")
    base = (
        "ALL = {}\nclass Base:\n    def __init_subclass__(cls):\n        ALL[cls.__name__] = cls\n"
    )
    package.load(**others(6), shared=SHARED, base=base, shop="")

    def twice() -> None:  # an effect that is seen only once the module is to go is early enough
        package.renew(shop=source)
        package.renew(shop="")

    with pytest.raises(NotRenewable):
        twice()


def test_another_directory_needs_a_load(package: Package, tmp_path: Path) -> None:
    for release in ("1", "2"):
        for name, source in {**others(4), "shop": plain("shop", release)}.items():
            path = tmp_path / release / "shops" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
    current = tmp_path / "current"
    current.symlink_to(tmp_path / "1")
    package.directory = current / "shops"
    registry = package.load()
    assert package.renew() == set()
    current.unlink()
    current.symlink_to(tmp_path / "2")
    with pytest.raises(NotRenewable, match="another directory"):
        registry.renew([])


def test_other_files_need_a_load(package: Package) -> None:
    package.load(**others(4), shop=plain("shop"))
    (package.directory / "rates.csv").write_text("1")
    with pytest.raises(NotRenewable, match="no module"):
        package.renew()


def test_a_change_to_most_modules_needs_a_load(package: Package) -> None:
    package.load(**{name: f"from shops import shared\n{text}" for name, text in others(4).items()},
                 shared=SHARED)  # fmt: skip
    with pytest.raises(NotRenewable, match="most modules"):
        package.renew(shared=f"{SHARED}\nMORE = 1")


def test_the_old_code_is_gone(package: Package) -> None:
    registry = package.load(**others(4), shop=plain("shop"))
    old: list[weakref.ref[Any]] = [
        weakref.ref(registry.spiders["shop"]),
        weakref.ref(sys.modules["shops.shop"]),
    ]
    sizes = []
    for number in range(20):
        package.renew(shop=plain("shop", number))
        gc.collect()
        sizes.append(len(gc.get_objects()))
    assert [one() for one in old] == [None, None]
    assert sizes[-1] <= sizes[4]


def test_renewals_agree_with_loads(package: Package) -> None:
    """Random changes; each renewal that is not refused has what a load of the same files has."""
    dice = random.Random(7)
    names = [f"m{number}" for number in range(8)]

    def source(own: int) -> str:
        lines = [f"OWN = {dice.randrange(100)}"]
        for other in dice.sample(range(own), min(own, dice.randrange(3))):
            how: Callable[[int], str] = dice.choice(
                [lambda n: f"from shops.m{n} import OWN as o{n}",
                 lambda n: f"import shops.m{n} as x{n}\no{n} = x{n}.OWN"])  # fmt: skip
            lines += [f"try:\n    {how(other).replace(chr(10), chr(10) + '    ')}",
                      f"except ImportError:\n    o{other} = None",
                      f"SUM{other} = (o{other}, getattr(o{other}, 'x', 0))"]  # fmt: skip
        if dice.random() < 0.1:
            lines.append("1 / 0")
        return "\n".join(lines)

    package.load(**{name: source(number) for number, name in enumerate(names)})
    renewed = 0
    for _ in range(60):
        number = dice.randrange(len(names))
        gone = dice.random() < 0.15 and (package.directory / f"m{number}.py").exists()
        try:
            package.renew(**{names[number]: None if gone else source(number)})
            renewed += 1
        except NotRenewable:
            package.reload()
            continue
        found = package.state()
        package.reload()
        assert found == package.state()
    assert renewed > 10
