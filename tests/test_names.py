"""Names of the product: a class name is used once in a package, and a constant has a noun."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
PACKAGES = ("crawlframe", "crawlservice")
# Django finds commands and migrations by these names.
OF_DJANGO = {"Command", "Migration"}


def parsed(root: Path, package: str) -> Iterator[tuple[str, ast.Module]]:
    for path in sorted((root / package).rglob("*.py")):
        yield str(path.relative_to(root)), ast.parse(path.read_text())


def repeated_classes(root: Path, package: str) -> dict[str, list[str]]:
    """Module-level classes, private ones apart."""
    places = defaultdict(list)
    for path, tree in parsed(root, package):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_class_name_is_used_once_in_a_package(package: str) -> None:
    repeated = repeated_classes(CHECKOUT, package)
    assert {name: paths for name, paths in repeated.items() if name not in OF_DJANGO} == {}


def test_a_repeated_class_name_is_found(tmp_path: Path) -> None:
    for name in ("node/a", "near/b"):
        path = tmp_path / f"crawlframe/{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text("class Found:\n    class Kind: ...\nclass _Found: ...\n")
    expected = {"Found": ["crawlframe/near/b.py", "crawlframe/node/a.py"]}
    assert repeated_classes(tmp_path, "crawlframe") == expected
