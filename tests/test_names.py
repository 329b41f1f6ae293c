"""Names of the product: a class name is used once in a package, and a constant has a noun."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Mapping

import pytest

from tests.test_dead_code import trees

PACKAGES = ("crawlframe", "crawlservice")
OF_DJANGO = {"Command"}  # by which Django finds commands
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


def repeated_classes(modules: Mapping[str, ast.Module], package: str) -> dict[str, list[str]]:
    """Module-level classes, private ones apart."""
    places = defaultdict(list)
    for name, tree in modules.items():
        for node in tree.body if name.partition(".")[0] == package else []:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name)
    return {name: found for name, found in places.items() if len(found) > 1}


@pytest.mark.slow
@pytest.mark.parametrize("package", PACKAGES)
def test_a_class_name_is_used_once_in_a_package(package: str) -> None:
    repeated = repeated_classes(trees(), package)
    assert {name: found for name, found in repeated.items() if name not in OF_DJANGO} == {}


def test_a_repeated_class_name_is_found() -> None:
    tree = ast.parse("class Found:\n    class Kind: ...\nclass _Found: ...\n")
    modules = dict.fromkeys(("a.node.a", "a.near.b", "b"), tree)
    assert repeated_classes(modules, "a") == {"Found": ["a.node.a", "a.near.b"]}


def numbers_without_a_noun(tree: ast.Module) -> list[str]:
    """Constants of a module with one of the names BARE whose value is a number or a timedelta."""
    found: list[str] = []
    for node in tree.body:
        match node:
            case ast.Assign([ast.Tuple(targets)], ast.Tuple(values)):
                pairs = [*zip(targets, values, strict=True)]
            case ast.Assign([target], value) | ast.AnnAssign(target, value=ast.expr() as value):
                pairs = [(target, value)]
            case _:
                continue
        found += (
            target.id
            for target, value in pairs
            if isinstance(target, ast.Name)
            if target.id.strip("_") in BARE and NUMBER.match(ast.unparse(value))
        )
    return found


@pytest.mark.slow
def test_a_number_has_a_noun() -> None:
    bare = {name: numbers_without_a_noun(tree) for name, tree in trees().items()}
    assert {name: found for name, found in bare.items() if found} == {}


def test_a_number_without_a_noun_is_found() -> None:
    text = "MOST = 1 << 3\n_EVERY: int = -2\nMAX_PAGES = 3\nSHOWN = ('a',)\nFIRST, LEAST = 1, 2\n"
    assert numbers_without_a_noun(ast.parse(text)) == ["MOST", "_EVERY", "LEAST"]
