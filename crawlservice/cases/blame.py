"""Blame: the site or the commit, by the same pages and both versions of the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from crawlservice.cases.diagnosis import Diagnosis
from crawlservice.models import Case

Cause, Blame = Case.Cause, Case.Blame
# Causes of which the pages say enough: no code makes a page a challenge.
OF_SITE = frozenset({Cause.CHALLENGE, Cause.HOST_DEAD, Cause.REDIRECTED})
MAJORITY = 0.5  # share of old pages with a loss that makes it the commit's


class TrialResult(NamedTuple):
    """Both versions on old pages of a spider. ``worse``: by part, such as ``items.price``, the
    number of values that the new version lost or changed, and of new errors. ``problem``: why it
    was not tried."""

    pages: int = 0
    worse: Mapping[str, int] = {}
    same_code: bool = False
    problem: str = ""


def needs_trial(diagnosis: Diagnosis, good: str, bad: str) -> bool:
    """Whether only a trial tells the site from the commit."""
    return diagnosis.cause not in (*OF_SITE, Cause.BLOCKED) and bool(good and bad) and good != bad


def blame(diagnosis: Diagnosis, good: str, bad: str, trial: TrialResult | None = None) -> str:
    """Whoever is to blame for a cause. Adds the proof to the diagnosis, and makes its cause the
    commit if that is."""
    proof = diagnosis.proof
    proof["good_version"] = good
    if diagnosis.cause == Cause.BLOCKED:
        return Blame.WE
    if diagnosis.cause in OF_SITE:
        return Blame.SITE
    if not good or not bad:
        proof["blame"] = "no_version"
        return Blame.UNKNOWN
    if good == bad:
        proof["blame"] = "same_version"
        return Blame.UNKNOWN if diagnosis.unchanged else Blame.SITE
    if trial is None or trial.problem or not (trial.same_code or trial.pages):
        proof["blame"] = "not_tried"
        proof["problem"] = trial.problem if trial else ""
        return Blame.UNKNOWN
    if trial.same_code:
        proof["blame"] = "same_code"
        return Blame.UNKNOWN if diagnosis.unchanged else Blame.SITE
    lost = _losses(trial, diagnosis.fields)
    proof |= {"tried": trial.pages, "worse": dict(lost)}
    if max(lost.values(), default=0) >= MAJORITY * trial.pages:
        proof["blame"] = "fails_on_old"
        diagnosis.cause = Cause.COMMIT
        return Blame.COMMIT
    proof["blame"] = "well_on_old"
    return Blame.UNKNOWN if diagnosis.unchanged else Blame.SITE


def _losses(trial: TrialResult, fields: list[str]) -> dict[str, Any]:
    """The parts that the new version makes worse and that concern these fields; all if none is
    named."""
    parts = {"errors", "items", *(f"items.{name}" for name in fields)}
    named = {part: number for part, number in trial.worse.items() if not fields or part in parts}
    return dict(sorted(named.items(), key=lambda one: -one[1])[:5])
