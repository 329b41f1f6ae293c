"""Trials of two commits of a real repository on kept pages, and their process."""

from __future__ import annotations

import time
from typing import Any

import pytest

from crawlframe.errors import CrawlframeError
from crawlservice.cases import trial
from crawlservice.cases.blame import TrialResult
from crawlservice.cases.trial import TrialProcess, tried
from crawlservice.models import Item, KeptPage
from tests.crawlservice.test_preview import PACKAGE, PAGES, Project, handlers, project

__all__ = ("handlers", "project")  # fixtures
ALL = {
    "errors": PAGES, "items": PAGES, "items.title": PAGES, "items.price": PAGES,
    "requests": 2 * PAGES,
}  # fmt: skip
pytestmark = [pytest.mark.forks, pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite")]


def pages() -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for page in KeptPage.objects.select_related("task"):
        found.setdefault(page.task.spider, []).append(page.pk)
    return found


def test_what_a_commit_makes_worse(project: Project) -> None:
    good = project.git("rev-parse", "HEAD").strip()
    changed = project.spider("alpha", '".price"', '".cost"')
    project.commit(changed, push=False)
    bad = project.git("rev-parse", "HEAD").strip()
    rows = Item.objects.count()
    found = tried(good[:12], bad[:12], pages())
    assert found == {
        "alpha": TrialResult(PAGES, ALL, {"items.price": PAGES}),
        "beta": TrialResult(same_code=True),
        "gamma": TrialResult(same_code=True),
    }
    assert Item.objects.count() == rows


def test_a_commit_in_which_a_spider_does_not_load(project: Project) -> None:
    good = project.git("rev-parse", "HEAD").strip()
    project.commit({f"{PACKAGE}/alpha.py": "import nothing_of_this_name\n"}, push=False)
    bad = project.git("rev-parse", "HEAD").strip()
    found = tried(good, bad, pages())
    assert found["alpha"].worse == {"errors": 1}
    with pytest.raises(CrawlframeError, match="has changes that are in no commit"):
        tried(good, f"{bad[:12]}+3c4d", pages())
    with pytest.raises(CrawlframeError, match="lacks the commit 1f00"):
        tried("1f00", bad, pages())


def wait(process: TrialProcess) -> dict[str, TrialResult]:
    for _ in range(600):
        if (found := process.results()) is not None:
            return found
        time.sleep(0.1)
    raise AssertionError("it does not end")


def test_the_process_answers_or_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    process = TrialProcess("1f001f001f00", "2a002a002a00", {"shop": [1]})
    (result,) = wait(process).values()
    assert "commit 1f001f001f00" in result.problem
    process.stop()
    monkeypatch.setattr(trial, "SECONDS", -1.0)
    late: Any = TrialProcess("1f00", "2a00", {"shop": [1], "news": [2]})
    assert "longer than" in wait(late)["news"].problem
    assert late._process.returncode is not None
