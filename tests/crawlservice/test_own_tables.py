"""The example of an app whose models are items, as the documentation has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/guide/items.md"
PROGRAM = """
import django
django.setup()
from django.core.management import call_command
call_command("makemigrations", "estate", verbosity=0)
call_command("migrate", verbosity=0)
from crawlframe import Request, Response
from crawlframe.run.collector import Collector
from crawlframe.run.link_filters import KnownFilter, LinkPage
from crawlframe.run.outcome import Outcome
from crawlservice.ledger.store import DjangoLedger
from crawlservice.models import Item, RowChange, Task
from estate.models import House
from estate_spider import Houses

task = Task.objects.create(spider="houses", seeds=b"")
for number, price in enumerate((5, 7)):
    url = "https://example.com/houses"
    box = f"<div class=house><a href=/1></a><p class=agent>Ann</p><p class=price>{price}</p></div>"
    page = Outcome(b"%16d" % number, task.pk, "h", b"r", 1, 1, url=url)
    collector = Collector(LinkPage(page))
    response = Response(url, 200, {}, box.encode(), request=Request(url))
    for item in Houses().parse(response):
        collector.take(item)
    DjangoLedger().commit([page])
house = House.objects.get()
print(house.url, house.price, house.agent.name, Item.objects.count())
print(RowChange.objects.get().changes["price"])
"""


def test_the_example_of_the_documentation_stores_rows(tmp_path: Path) -> None:
    parts = (part.split("```")[0] for part in PAGE.read_text().split("```python\n")[1:])
    models, spider = (part for part in parts if "estate" in part)
    for name, text in (
        ("estate/__init__.py", ""),
        ("estate/migrations/__init__.py", ""),
        ("estate/models.py", models),
        ("estate_spider.py", spider),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "crawlservice.node_settings",
            "CRAWLFRAME_APPS": "estate",
            "CRAWLFRAME_VAR_DIR": str(tmp_path / "var"),
            "PYTHONPATH": f"{Path.cwd()}:{tmp_path}",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["https://example.com/1 7 Ann 4", "[5, 7]"], done.stderr
