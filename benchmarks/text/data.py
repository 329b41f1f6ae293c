"""Data: the pages and the measure of the public benchmark, read where its owner has put them."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

SOURCE = "https://github.com/scrapinghub/article-extraction-benchmark"
BODY = "articleBody"

# (truth, prediction, samples of the bootstrap) -> f1, precision, recall and their deviations
Measure = Callable[[dict[str, Any], dict[str, Any], int], dict[str, Any]]


class Page(NamedTuple):
    """``key``: its name in the ground truth."""

    key: str
    url: str
    html: str


class Data(NamedTuple):
    """``truth``: by the key of a page, its article as a person has marked it."""

    pages: list[Page]
    truth: dict[str, Any]
    evaluate: Measure


def load(root: Path) -> Data:
    """The benchmark in this directory. Raises OSError if it is not there."""
    missing = [
        name for name in ("evaluate.py", "ground-truth.json", "html") if not (root / name).exists()
    ]
    if missing:
        raise FileNotFoundError(
            f"{root} has no {' and no '.join(missing)}; it must be a checkout of {SOURCE}, as made "
            f"by: git clone {SOURCE} {root}"
        )
    truth = json.loads((root / "ground-truth.json").read_text("utf-8"))
    pages = [Page(key, one.get("url", ""), _html(root, key)) for key, one in truth.items()]
    return Data(pages, truth, _measure(root / "evaluate.py"))


def _html(root: Path, key: str) -> str:
    with gzip.open(root / "html" / f"{key}.html.gz", "rt", encoding="utf-8") as file:
        return file.read()


def _measure(path: Path) -> Measure:
    spec = importlib.util.spec_from_file_location("evaluate", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"{path} is no module of Python")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    measure: Measure = module.evaluate
    return measure
