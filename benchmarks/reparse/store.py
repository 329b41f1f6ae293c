"""``python -m benchmarks.reparse.store``: reads all kept pages as a worker does, in the order of
their numbers, and prints how many there are and the seconds of processor time that took."""

from __future__ import annotations

import sys
import time

import django

BATCH = 64  # pages of one read, as many as a worker of the benchmark has in hand


def main() -> int:
    django.setup()
    from crawlframe.request import Request
    from crawlservice.models import KeptPage
    from crawlservice.pages.sources import source_pages

    last = read = size = 0
    began, wall = time.process_time(), time.monotonic()
    while numbers := [
        *KeptPage.objects.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[:BATCH]
    ]:
        for page in source_pages(numbers)[0].values():
            response = page.response(Request.decode(page.record))
            read, size = read + 1, size + len(response.body)
        last = numbers[-1]
    print(read, size, time.process_time() - began, time.monotonic() - wall)
    return 0


if __name__ == "__main__":
    sys.exit(main())
