"""A program that exports until it is killed: for each line it reads, it forks a process that does.

A line is a fault, such as ``export.write.before:2:kill``, or ``-`` for none; the answer is the
number of the process. Forked, because a kill costs 20 ms then, instead of a second."""

from __future__ import annotations

import os
import sys
import time

import django

django.setup()

from crawlframe.base import faults  # noqa: E402
from crawlframe.conf import Settings  # noqa: E402
from crawlservice.exports.exporter import Exporter  # noqa: E402
from crawlservice.exports.target import kinds  # noqa: E402
from crawlservice.models import Export  # noqa: E402

kinds()  # imported before the fork


def export_all() -> None:
    exporters = [Exporter(pk, Settings()) for pk in Export.objects.values_list("pk", flat=True)]
    while True:
        pauses = [exporter.step() for exporter in exporters]
        if 0 not in pauses:
            time.sleep(0.005)


if __name__ == "__main__":
    for line in sys.stdin:
        fault = line.strip()
        child = os.fork()
        if not child:
            faults.at = faults.Faults(fault).at if fault != "-" else faults._nowhere
            try:
                export_all()
            finally:
                os._exit(1)
        print(child, flush=True)
        os.waitpid(child, 0)
        print("gone", flush=True)
