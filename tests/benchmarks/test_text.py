"""The benchmark of articles on pages of our own, with a stand-in for the measure of the public
one."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.text.__main__ import WAYS, Found, measure, shortcomings, without_marks
from benchmarks.text.data import load

pytest.importorskip("trafilatura")
pytest.importorskip("resiliparse")

SENTENCE = "It is a sentence that is long enough for a paragraph of an article, number {}."
MEASURE = """
def evaluate(truth, predicted, samples):
    assert truth.keys() == predicted.keys()
    good = sum(truth[key]["articleBody"] in one["articleBody"] for key, one in predicted.items())
    share = good / len(truth)
    return {"f1": share, "precision": share, "recall": 1.0, "f1_std": 0.0, "tp_fp_fns": []}
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    truth: dict[str, Any] = {}
    (tmp_path / "html").mkdir()
    for key in ("a", "b"):
        paragraphs = [SENTENCE.format(f"{key}{n}") for n in range(8)]
        body = "".join(f"<p>{text}</p>" for text in paragraphs)
        page = f"<html><body><article><h1>A title</h1>{body}</article></body></html>"
        (tmp_path / "html" / f"{key}.html.gz").write_bytes(gzip.compress(page.encode()))
        truth[key] = {"articleBody": paragraphs[3], "url": f"http://www.example.com/{key}"}
    (tmp_path / "ground-truth.json").write_text(json.dumps(truth))
    (tmp_path / "evaluate.py").write_text(MEASURE)
    return tmp_path


def test_it_ends_with_0_if_the_goals_are_reached_and_else_with_1(data: Path) -> None:
    output = data / "figures.json"
    assert measure(data, output) == 0
    figures = json.loads(output.read_text())
    assert [*figures["ways"]] == [way.name for way in WAYS]
    assert all(len(way["seconds"]) == 2 for way in figures["ways"].values())
    truth = json.loads((data / "ground-truth.json").read_text())
    truth["a"]["articleBody"] = "something else"
    (data / "ground-truth.json").write_text(json.dumps(truth))
    assert measure(data, output) == 1


def test_a_page_that_takes_too_long_is_a_shortcoming() -> None:
    assert shortcomings(WAYS[0], Found({"f1": 0.99}, [0.1, 0.2])) == []
    (problem,) = shortcomings(WAYS[0], Found({"f1": 0.99}, [0.1, 3.0]))
    assert "a page took 3.0 s" in problem


def test_data_that_are_not_there_are_named_with_their_source(tmp_path: Path) -> None:
    with pytest.raises(
        FileNotFoundError, match=r"no evaluate\.py and no ground-truth.*git clone http"
    ):
        load(tmp_path)


def test_the_command_without_data(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.text", "--data", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "git clone" in done.stderr


@pytest.mark.parametrize(
    ("markdown", "words"),
    [
        ("a [link](http://x/y_z) b", "a link b"),
        ("[a \\] b](<http://x/ (y)>)", "a ] b"),
        ("![alt](/a.png)", "alt"),
        ("1. one\n  2) two", "one\n  two"),
        ("snake\\_case", "snake_case"),
    ],
)
def test_marks_are_no_words(markdown: str, words: str) -> None:
    assert without_marks(markdown) == words
