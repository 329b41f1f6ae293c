"""Tests that run in the same process of xdist."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests.conftest import CHECKOUT
from tests.scheduling import group, sort


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/browser/service/test_phone.py::test", "tests/browser/service"),
        (
            "tests/crawlservice/test_migrations.py::test[a::b]",
            "tests/crawlservice/test_migrations.py",
        ),
        ("tests/crawlservice/test_tokens.py::test[a::b]", "tests/crawlservice/test_tokens.py"),
        ("tests/process/test_kills.py::test[a::b]", "tests/process/test_kills.py::test[a::b]"),
    ],
)
def test_a_group_is_a_folder_a_file_or_a_test_of_nodes(test: str, expected: str) -> None:
    assert group(CHECKOUT, test) == expected


class Item(NamedTuple):
    nodeid: str


def test_tests_of_nodes_come_first_and_then_large_files() -> None:
    names = [
        "tests/a.py::one",
        "tests/b.py::one",
        "tests/process/test_kills.py::one",
        "tests/b.py::two",
        "tests/process/test_kills.py::two",
    ]
    items: Any = [Item(name) for name in names]
    sort(CHECKOUT, items)
    assert [names.index(item.nodeid) for item in items] == [2, 4, 1, 3, 0]
