"""``python -m benchmarks.scrapy_projects CHECKOUTS [--only NAME …]``"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.scrapy_projects import fence, report
from benchmarks.scrapy_projects.authority import Authority
from benchmarks.scrapy_projects.comparison import ROOT, Compared, Runners
from benchmarks.scrapy_projects.pages import Pages
from benchmarks.scrapy_projects.projects import Crawl, Project, crawls, projects
from benchmarks.scrapy_projects.site import Site

NAME = "benchmarks.scrapy_projects"
LONGEST = 1800.0  # seconds for the survey of one project


def main() -> int:
    known = projects()
    parser = argparse.ArgumentParser(
        prog=f"python -m {NAME}",
        description="Looks at public Scrapy projects: how many spiders are found, load and start, "
        "what the report says of each, and, for those with local pages, whether their items are "
        "those of Scrapy. Runs in a network namespace with nothing but loopback. Exit code 1 if "
        "items differ.",
    )
    parser.add_argument("checkouts", type=Path, help="a directory with OWNER+NAME directories")
    parser.add_argument("--python", default=sys.executable, help="has the projects' packages too")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[one.name for one in known])
    parser.add_argument("--crawls", action="store_true", help="only crawl; survey nothing")
    parser.add_argument("--surveys", action="store_true", help="only survey; crawl nothing")
    parser.add_argument("--reasons", action="store_true", help="print each reason, not one a kind")
    arguments = parser.parse_args()
    fence.enter(NAME)
    chosen = [one for one in known if not arguments.only or one.name in arguments.only]
    surveys: dict[str, Any] = {}
    compared: list[Compared] = []
    with tempfile.TemporaryDirectory(prefix="scrapy-projects-") as work:
        for project in chosen:
            if difference := project.difference(arguments.checkouts):
                print(f"{project.name}: {difference}", file=sys.stderr)
            if not (project.checkout(arguments.checkouts) / project.directory).is_dir():
                continue
            if not arguments.crawls:
                made = survey(project, arguments.checkouts, arguments.python, Path(work))
                surveys[project.name] = made
                print("\n".join(report.of_survey(project, made, arguments.reasons)), flush=True)
        if not arguments.surveys:
            compared = compare(chosen, arguments.checkouts, arguments.python, Path(work))
    print("\n".join(report.summary(chosen, surveys, compared)))
    return 0 if all(one.equal for one in compared) else 1


def survey(project: Project, checkouts: Path, python: str, work: Path) -> dict[str, Any]:
    """What survey.py prints of a project, or {"failed": why}."""
    place = project.checkout(checkouts) / project.directory
    try:
        done = subprocess.run(
            [python, "-m", f"{NAME}.survey", place, str(project.every)],
            cwd=ROOT,
            env=environment(project, work),
            capture_output=True,
            text=True,
            timeout=LONGEST,
        )
        result: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        return {"failed": repr(error)}
    return result


def compare(chosen: list[Project], checkouts: Path, python: str, work: Path) -> list[Compared]:
    """Both crawls of each spider that has pages, one after the other."""
    by_project: dict[str, list[Crawl]] = defaultdict(list)
    for crawl in crawls():
        by_project[crawl.project].append(crawl)
    found: list[Compared] = []
    authority = Authority(work)
    os.environ["SSL_CERT_FILE"] = str(authority.bundle)
    with Site(authority) as site:
        for project in chosen:
            asked = by_project[project.name]
            checkout = project.checkout(checkouts)
            place = checkout / project.directory
            if not asked or not place.is_dir():
                continue

            def surroundings(name: str, project: Project = project) -> dict[str, str]:
                (own := work / name).mkdir(exist_ok=True)
                return environment(project, own)

            with Runners(python, place, surroundings) as both:
                for crawl in asked:
                    site.pages = Pages(crawl.pages, checkout)
                    found.append(both.compare(crawl, site))
                    print("\n".join(report.of_comparison(found[-1])), flush=True)
    return found


def environment(project: Project, work: Path) -> dict[str, str]:
    """That of the processes of a project, whose files go into the directory for work."""
    given = {name: value.format(work=work) for name, value in project.environment.items()}
    return {**os.environ, "PYTHONPATH": str(ROOT), **given}


if __name__ == "__main__":
    sys.exit(main())
