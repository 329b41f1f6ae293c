"""When a framework that lacked tables is tried again."""

from __future__ import annotations

import pytest

from crawlframe.node.supervisor.master_processes import MissingTables


@pytest.fixture
def tables() -> MissingTables:
    made = MissingTables()
    assert not made.learn("1")
    return made


def test_it_is_tried_once_for_each_migration(tables: MissingTables) -> None:
    tables.begin()
    assert not tables.lack()
    assert not tables.learn("1")  # another steward says the same
    assert tables.learn("2")
    tables.begin()
    assert not tables.learn("2")
    assert not tables.lack()
    assert tables.learn("3")


def test_a_migration_while_it_was_tried(tables: MissingTables) -> None:
    tables.begin()
    assert not tables.learn("2")
    assert tables.lack()


def test_what_was_refused_for_another_reason_is_not_tried_again(tables: MissingTables) -> None:
    tables.begin()
    assert not tables.learn("2")
    assert not tables.learn("3")
