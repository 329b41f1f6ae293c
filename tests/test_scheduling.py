"""Which tests run in the same process of xdist."""

from __future__ import annotations

import pytest

from tests.conftest import CHECKOUT
from tests.scheduling import group


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("tests/browser/service/test_phone.py::test", "tests/browser/service"),
        (
            "tests/crawlservice/test_migrations.py::test[a::b]",
            "tests/crawlservice/test_migrations.py",
        ),
        (
            "tests/crawlservice/test_tokens.py::test[a::b]",
            "tests/crawlservice/test_tokens.py::test[a::b]",
        ),
    ],
)
def test_tests_that_share_a_fixture_are_in_one_group(test: str, expected: str) -> None:
    assert group(CHECKOUT, test) == expected
