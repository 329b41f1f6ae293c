"""The tests in docs/guide/test.md pass as they stand there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs/guide/test.md"
NAMES: dict[str, Any] = {"__name__": "howto"}
for source in re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE):
    exec(compile(source, str(PAGE), "exec"), NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("test_")])
def test_each_test_of_the_page_passes(name: str) -> None:
    NAMES[name]()


def test_the_page_has_seven_tests() -> None:
    assert len([name for name in NAMES if name.startswith("test_")]) == 7
