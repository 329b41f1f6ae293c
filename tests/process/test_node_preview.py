"""A version that loses data on kept pages does not go live by itself."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from crawlframe.frontier.cluster.trials import PREVIEW, TrialOrder
from crawlservice.models import KeptPage, PreviewReport
from tests.process.conftest import OddWeb
from tests.process.reload_project import WORDS, NodeStarter, Project, of_words, shop

pytestmark = pytest.mark.process


@pytest.fixture
def database(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project.make(tmp_path / "project")
    project.write("shops/kept.py", of_words("kept", '"keep": "all"'))
    project.write("shops/words.py", WORDS)
    project.commit()
    return project


def test_a_version_that_loses_data_is_refused(
    odd_env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    env = project.env(odd_env, CRAWLFRAME_PREVIEW="refuse", CRAWLFRAME_CHECK_TIMEOUT="4")
    node = starter.node(env)
    node.ready()
    assert node.crawl(f"{web.url}one", "kept") == "right"
    assert KeptPage.objects.count() == 1
    hits = sum(web.hits.values())

    # An import makes less of the page.
    project.write("shops/words.py", WORDS.replace("'right'", "None"))
    problem = node.refused("kept.code: lost 1 of 1").problem
    assert f"code: right -> nothing on {web.url}one" in problem.replace("null", "nothing")

    # Its callback raises, kills its process, or hangs.
    for line, told in (
        ("raise ValueError(1)", "kept.errors: new on 1 of 1 pages"),
        ("os.kill(os.getpid(), 9)", f"spider kept: kept page {web.url}one ended the process"),
        ("import time; time.sleep(99)", f"kept page {web.url}one took longer than 4 s"),
    ):
        project.write("shops/words.py", WORDS)
        project.write("shops/kept.py", of_words("kept", '"keep": "all"', line))
        node.refused(told)
    assert sum(web.hits.values()) == hits  # nothing was fetched
    assert node.crawl(f"{web.url}two", "kept") == "right"

    # Another spider, and another value, which is no loss.
    project.write("shops/shop.py", shop("second"))
    project.write("shops/kept.py", of_words("kept", '"keep": "all"'))
    node.renewed(1)
    project.write("shops/words.py", WORDS.replace("right", "left"))
    node.renewed(2)
    assert node.crawl(f"{web.url}three", "kept") == "left"

    # The author says that it is meant so.
    project.write("shops/preview.toml", 'ignore = ["kept.code"]')
    project.write("shops/words.py", WORDS.replace("'right'", "None"))
    node.renewed(3)
    assert node.look.frontier.audit() == []


def test_an_operator_accepts_a_version(
    odd_env: dict[str, str],
    starter: NodeStarter,
    project: Project,
    web: OddWeb,
    manage: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    del odd_env["CRAWLFRAME_PREVIEW"]  # it asks by default
    env = project.env(odd_env, CRAWLFRAME_BEAT="0.5")
    node = starter.node(env)
    node.ready()
    assert node.crawl(f"{web.url}one", "kept") == "right"
    project.write("shops/words.py", WORDS.replace("'right'", "None"))
    refused = node.refused("kept.code: lost 1 of 1")
    assert refused.asks
    report = PreviewReport.objects.get()
    assert (report.version, report.against) == (refused.candidate, refused.version)
    (row,) = report.report["rows"]
    (example,) = row["examples"]
    told = (row["spider"], row["part"], row["lost"], example["before"], example["kept"])
    assert told == ("kept", "code", 1, "right", KeptPage.objects.get().pk)

    done = manage("node", "refuse", refused.candidate, env=env)
    assert done.returncode == 0, done.stderr
    node.until(lambda: node.code.refused_by == "a command")
    assert not node.code.asks
    # A newer version is tried anew.
    project.write("shops/words.py", WORDS.replace("'right'", "''"))
    node.until(lambda: node.code.asks)
    newer = node.code.candidate
    assert newer != refused.candidate
    assert {row.version for row in PreviewReport.objects.all()} == {refused.candidate, newer}
    done = manage("node", "accept", newer, env=env)
    assert done.returncode == 0, done.stderr
    node.renewed(1)
    assert node.crawl(f"{web.url}two", "kept") == ""


def test_a_node_runs_a_preview_that_is_ordered(
    odd_env: dict[str, str], starter: NodeStarter, project: Project, web: OddWeb
) -> None:
    node = starter.node(project.env(odd_env, CRAWLFRAME_BEAT="0.5"))
    node.ready()
    assert node.crawl(f"{web.url}one", "kept") == "right"
    hits = sum(web.hits.values())
    project.git("switch", "--quiet", "--create", "other")
    project.write("shops/words.py", WORDS.replace("'right'", "None"))
    version = project.commit()
    project.git("switch", "--quiet", "main")

    def ordered(revision: str) -> PreviewReport:
        given = {"revision": revision, "against": "main", "spiders": [], "pages": 9}
        row = PreviewReport.objects.create(version=revision, given=given, state="waiting")
        node.look.frontier.trials.ask(uuid4().hex, TrialOrder("", PREVIEW, row.pk))
        node.until(lambda: PreviewReport.objects.get(pk=row.pk).state in ("done", "failed"))
        row.refresh_from_db()
        return row

    row = ordered("other")
    assert (row.state, row.problem, row.version, row.errors) == ("done", "", version, 1)
    (part,) = row.report["rows"]
    assert (part["spider"], part["part"], part["lost"]) == ("kept", "code", 1)
    wrong = ordered("nowhere")
    assert wrong.state == "failed"
    assert "'nowhere' is no branch" in wrong.problem
    assert sum(web.hits.values()) == hits
