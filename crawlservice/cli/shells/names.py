"""Names for the completion of shells: spiders, open tasks and hosts. Run as a process of its own,
with the file to write them to."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_NAMES = 500  # names of each kind
NAME = re.compile(r"^ +name(?:: str)? = [\"']([\w.-]+)[\"']", re.M)  # in a class of a spider


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    import django

    django.setup()
    path = Path(sys.argv[1])
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(collected()))
    draft.replace(path)


def collected() -> dict[str, dict[str, str]]:
    """Names by kind, each with its description. A database that is away or empty has none."""
    from django.db import DatabaseError

    from crawlservice.connections.database import is_there
    from crawlservice.models import Host, Task
    from crawlservice.tasks.spider_runs import last_tasks

    found = {"spiders": dict.fromkeys(_in_files(), "spider"), "tasks": {}, "hosts": {}}
    try:
        if is_there():
            active = Task.objects.filter(state__in=Task.ACTIVE).order_by("-pk")
            tasks = active.values_list("pk", "spider", "state")[:MAX_NAMES]
            hosts = Host.objects.order_by("-pk").values_list("name", flat=True)[:MAX_NAMES]
            found["spiders"] |= dict.fromkeys(last_tasks(), "spider")
            found["tasks"] = {str(pk): f"{spider}, {state}" for pk, spider, state in tasks}
            found["hosts"] = dict.fromkeys(hosts, "host")
    except DatabaseError:
        pass
    return found


def _in_files() -> Iterator[str]:
    """Names of spiders in the code, which is read and not run."""
    from django.conf import settings

    from crawlframe.code.package import find_package

    folder = find_package(settings.CRAWLFRAME.spiders)
    for path in sorted(folder.rglob("*.py")) if folder else ():
        yield from NAME.findall(path.read_text(errors="replace"))


if __name__ == "__main__":
    main()
