"""submit: starts a task that the running nodes crawl."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.db import transaction

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.secret_input import with_secrets
from crawlservice.cli.terminal import ASKED, add_arguments, add_labels, add_settings
from crawlservice.tasks.arguments.spider_arguments import parse_pairs
from crawlservice.tasks.labels import parse_all
from crawlservice.tasks.overrides import detail, parse_settings
from crawlservice.tasks.submit import published, submit


class Command(ServiceCommand):
    help = "Submits a task to the running nodes."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("spider", help="the spider's name")
        add_arguments(parser, ASKED)
        add_settings(parser)
        add_labels(parser)
        parser.add_argument(
            "--priority", type=int, default=0, help="-100 to 100; higher runs first"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        priority, info = options["priority"], published(options["spider"])
        given = with_secrets(info, parse_pairs(options["arguments"]))
        settings = parse_settings(options["overrides"])
        labels = parse_all(options["labels"])
        with transaction.atomic():  # recorded even if Redis could not be updated
            task = submit(
                *(info.name, given),
                priority=priority,
                from_text=True,
                info=info,
                settings=settings,
                labels=labels,
            )
            record("submit", task=task, command=True, **detail(task))
        self.done(f"task {task.pk} submitted: {task.spider}", f"task cancel {task.pk}")
        self.stdout.write(f"Follow it: {command(f'task show {task.pk} --follow')}")
