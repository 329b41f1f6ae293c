"""Welcome: what a supervisor tells a new master when that has been imported."""

from __future__ import annotations

import msgspec


class Welcome(msgspec.Struct):
    """How things stand."""

    beside: list[int]  # pids of masters that may live at the same time under the same node name
    broken: (
        list[str] | None
    )  # modules that are broken in the master it shall follow; None: none lives
    changed_at: float  # time.monotonic() of the last write of the change that led to this master
    follows: str  # "origin/main"; "" without --follow
    pulled: str
    pull_problem: str
    answered: int  # id of the announcement that the last pull answered
    rollout: int  # id of the last announcement that was heeded
