"""Names of the product: a class name is used once in a package, and a constant has a noun."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent
PACKAGES = ("crawlframe", "crawlservice")
# Django finds commands and migrations by these names.
OF_DJANGO = {"Command", "Migration"}
# Adjectives, verbs and adverbs that have stood alone as the name of a number.
BARE = set(
    """
    ABOVE AFTER AGAIN ALIKE APART BUSY CACHED CLOSE COMPARED CONFIRM COUNTED DOUBTFUL EARLY
    ELSEWHERE ENDED ENDING ENOUGH EVERY EXACT EXAMINED FAILED FAST FATAL FEW FEWEST FITS FORGET
    FORGOTTEN FRESH GATHER GO GONE GROWN HELD IDLE KEPT LACKING LARGE LARGEST LASTS LATE LATER
    LATEST LEAST LIKELY LINGER LISTED LITTLE LIVES LONG LONGER LONGEST LOOK LOOKED LOUD
    MANY MOST NAMED NEAR NEEDED NEXT OLDEST OPEN QUEUED QUIET RARELY RECENT REMEMBERED RENDERED
    REPLACED REPLANNED REPORTED RESUMED RUNNING SAME SAMPLED SEARCHED SEEN SETTLED SHORT
    SHORTEST SHORTLY SHOWN SHRUNK SILENT SKIPPED SLOW SMALL SMALLEST SOON STALE STALLED STEADY STICK
    STILL STOPPED SURE SUSPECTED TAKING TELL TOGETHER TOLD UNSTEADY UNSURE UNUSED WAITING WHY
    WIDE WORTH WRITING
    """.split()  # noqa: SIM905
)
NUMBER = re.compile(r"-?\d|int\(|timedelta\(")


@cache
def parsed(root: Path, package: str) -> list[tuple[str, ast.Module]]:
    paths = sorted((root / package).rglob("*.py"))
    return [(str(path.relative_to(root)), ast.parse(path.read_text())) for path in paths]


def repeated_classes(root: Path, package: str) -> dict[str, list[str]]:
    """Module-level classes, private ones apart."""
    places = defaultdict(list)
    for path, tree in parsed(root, package):
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1}


@pytest.mark.slow
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


def numbers_without_a_noun(root: Path, package: str) -> list[str]:
    """Constants of modules with one of the names BARE whose value is a number or a timedelta."""
    found: list[str] = []
    for path, tree in parsed(root, package):
        for node in tree.body:
            match node:
                case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                    pairs = [*zip(targets, values, strict=True)]
                case ast.Assign([target], value) | ast.AnnAssign(target, value=ast.expr() as value):
                    pairs = [(target, value)]
                case _:
                    continue
            found += (
                f"{path}: {target.id}"
                for target, value in pairs
                if isinstance(target, ast.Name)
                if target.id.strip("_") in BARE and NUMBER.match(ast.unparse(value))
            )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_number_has_a_noun(package: str) -> None:
    assert numbers_without_a_noun(CHECKOUT, package) == []


def test_a_number_without_a_noun_is_found(tmp_path: Path) -> None:
    (tmp_path / "crawlframe").mkdir()
    text = "MOST = 1 << 3\n_EVERY: int = -2\nMAX_PAGES = 3\nSHOWN = ('a',)\nFIRST, LEAST = 1, 2\n"
    (tmp_path / "crawlframe/a.py").write_text(text)
    expected = [f"crawlframe/a.py: {name}" for name in ("MOST", "_EVERY", "LEAST")]
    assert numbers_without_a_noun(tmp_path, "crawlframe") == expected
