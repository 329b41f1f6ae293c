"""A short campaign; the long one is ``python -m tests.faults``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.campaign import run


@pytest.mark.process
@pytest.mark.postgres
@pytest.mark.timeout(400)
def test_random_faults_change_nothing(tmp_path: Path) -> None:
    campaign, violations = run(
        tmp_path,
        seed=1,
        faults=10,
        pages=400,
        nodes=2,
        workers=2,
        partitions=1,
        slowest=0.2,
        tell=print,
    )
    assert violations == []
    assert sum(campaign.struck.values()) == 10
    assert campaign.tasks
