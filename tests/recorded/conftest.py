"""The site that recordings are made of."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.recorded.site import Site, running


@pytest.fixture
def site() -> Iterator[Site]:
    with running() as site:
        yield site
