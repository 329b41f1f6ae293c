"""startproject: makes a folder with manage.py, a first spider and its test, in git."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from crawlservice.cli.new_project import commit_project, write_project


class Command(BaseCommand):
    """Works outside of any project, so without our settings."""

    help = "Makes a project: a folder with manage.py, spiders, tests, and a git repository."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the project's name, such as my-shop")
        parser.add_argument(
            "folder", nargs="?", type=Path, help="new or empty; by default one of that name, here"
        )

        parser.add_argument(
            "--deploy", action="store_true",
            help="also write systemd units, a Dockerfile, files for Compose and Kubernetes, a lock "
            "of the versions installed here, and a workflow for GitHub that runs the tests",
        )  # fmt: skip

    def handle(self, *args: Any, **options: Any) -> None:
        folder: Path = options["folder"] or Path(options["name"])
        write_project(folder, options["name"], deploy=options["deploy"])
        self.stdout.write(f"made {folder}")
        if note := commit_project(folder):
            self.stderr.write(f"note: {note}")
        self.stdout.write(f"Go there: cd {folder}")
        self.stdout.write("Try it:   crawlframe crawl quotes -o quotes.jsonl")
        self.stdout.write("Test it:  pip install -r requirements-dev.txt && python -m pytest")
        self.stdout.write("Run it:   crawlframe up")
