"""Opened: makes the tasks of a cell, as if they had been submitted, and prints their ids as JSON.

A program of its own, since a process has the models of one database only. Argument: a Web as JSON.
The first id is that of a task which has ended."""

from __future__ import annotations

import json
import os
import sys
from functools import partial

import django

from benchmarks.growth.spiders.grown import Grown
from benchmarks.growth.web import Web
from crawlframe.request.request import Admission
from crawlframe.spider.spider import describe


def main(web: Web) -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "crawlservice.settings"
    django.setup()
    from crawlservice.connections.frontier import frontier
    from crawlservice.ledger.recovery import renew
    from crawlservice.models import Task
    from crawlservice.tasks.submit import Prepared, start_all, submit

    def seeds(task: Task, first: int) -> list[Admission]:
        return [web.admission(task.pk, first)]

    renew(frontier())  # as the first node does
    ended = Task.objects.create(spider=Grown.name, state=Task.State.FINISHED, seeds=b"")
    info, batch = describe(Grown), list[Prepared]()
    for first in range(web.tasks):
        submit(Grown.name, web._asdict(), info=info, seeds=partial(seeds, first=first), batch=batch)
    start_all(batch)
    print(json.dumps([ended.pk, *(new.task.pk for new in batch)]))


if __name__ == "__main__":
    main(Web(**json.loads(sys.argv[1])))
