"""``python -m benchmarks.ledger.without items|nothing runcrawler …``: manage.py with a node that
writes no ledger. It breaks every promise and is for this benchmark alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from crawlframe.frontier import Counts
from crawlframe.ledger import Recorded
from crawlframe.outcome import Outcome, Verdict

ITEMS, NOTHING = "items", "nothing"
INSERT = """
INSERT INTO crawlservice_item (rid, task_id, ordinal, data, version)
SELECT rid, task_id, ordinal, data, version FROM jsonb_to_recordset(%s::jsonb)
AS row(rid uuid, task_id bigint, ordinal integer, data jsonb, version text)
"""
END = "UPDATE crawlservice_task SET state = 'finished', finished_at = now() WHERE id = %s"


def main() -> None:
    kept, words = sys.argv[1], sys.argv[2:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlservice.settings")
    import django
    from django.core.management import execute_from_command_line

    django.setup()
    import crawlservice.services as services

    vars(services)["DjangoLedger"] = _ledger(kept)
    execute_from_command_line(["manage.py", *words])


def _ledger(kept: str) -> Any:
    import orjson
    from django.db import connection

    from crawlservice.ledger.rows import _array, _json_items
    from crawlservice.ledger.store import DjangoLedger

    class NoLedger(DjangoLedger):
        """Accepts what the worker reports."""

        def commit(self, outcomes: list[Outcome]) -> dict[bytes, Recorded]:
            items = [item for outcome in outcomes for item in _json_items(outcome)]
            if items and kept == ITEMS:
                with connection.cursor() as cursor:
                    cursor.execute(INSERT, [_array([orjson.dumps(item) for item in items])])
            return {
                outcome.rid: Recorded(
                    outcome.verdict is Verdict.ERROR,
                    outcome.results.follow_ups,
                    len(outcome.results.items),
                )
                for outcome in outcomes
            }

        def finish(self, tasks: Mapping[int, Counts], strays: int = 0) -> set[int]:
            with connection.cursor() as cursor:
                cursor.executemany(END, [[task] for task in tasks])
            return set(tasks)

    return NoLedger


if __name__ == "__main__":
    main()
