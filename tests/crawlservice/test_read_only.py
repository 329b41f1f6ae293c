"""Trial runs write nothing to a database through Django."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from crawlservice.connections.read_only import WriteRefused, read_only
from crawlservice.models import KeptPage, Task

pytestmark = pytest.mark.usefixtures("orm")


def test_statements_that_write_are_refused_in_all_threads() -> None:
    Task.objects.create(spider="shop", arguments={}, seeds=b"")
    with read_only():
        assert Task.objects.count() == 1
        with transaction.atomic(), transaction.atomic():
            assert [*Task.objects.filter(spider="UPDATE x SET y")] == []
            ordered = Task.objects.order_by()
            assert ordered.filter(pk=1).union(ordered.filter(pk=2)).count() < 2
        assert not KeptPage.objects.exists()
        raised: list[Exception] = []

        def write() -> None:
            try:
                Task.objects.all().update(spider="other")
            except Exception as error:
                raised.append(error)
            finally:
                connection.close()

        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        assert [type(error) for error in raised] == [WriteRefused]
        for statement in (
            "DELETE FROM crawlservice_task",
            "WITH x AS (SELECT 1) DELETE FROM crawlservice_task",
            "DROP TABLE crawlservice_task",
            "",
        ):
            with pytest.raises(WriteRefused, match="nothing is written to a database"):
                connection.cursor().execute(statement)
        with pytest.raises(WriteRefused):
            Task.objects.create(spider="shop", arguments={}, seeds=b"")
    Task.objects.create(spider="shop", arguments={}, seeds=b"")  # allowed again
    assert Task.objects.filter(spider="shop").count() == 2
