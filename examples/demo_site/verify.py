"""Compares the items of a crawl of the demo site with the site's generator."""

from __future__ import annotations

from collections import Counter

from crawlservice.models import Item, Task
from examples.demo_site import Site

NAMED = 5  # ids named per difference


def compare(task: Task, site: Site) -> tuple[bool, str]:
    """Whether all items are as generated, and a sentence about it."""
    stored = Item.objects.filter(task=task).order_by().values_list("data", flat=True)
    times: Counter[int] = Counter()
    right: set[int] = set()
    expected = {item["id"]: item for item in site.expected_items()}
    for data in stored.iterator(chunk_size=2000):
        times[data.get("id")] += 1
        if data == expected.get(data.get("id")):
            right.add(data["id"])
    found = f"{len(right):,} of {len(expected):,} listings"
    problems = {
        "missing": [number for number in expected if number not in times],
        "different": [number for number in times if number in expected and number not in right],
        "stored twice or more": [number for number, n in times.items() if n > 1],
        "not of this site": [number for number in times if number not in expected],
    }
    words = [
        f"{len(numbers)} {kind} ({', '.join(map(str, numbers[:NAMED]))}"
        + (", …)" if len(numbers) > NAMED else ")")
        for kind, numbers in problems.items()
        if numbers
    ]
    return not words, f"{found}; {', '.join(words)}" if words else f"{found}, all as generated"
