"""Blame: the site or the commit, by the same pages and both versions of the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from crawlservice.cases.diagnosis import Diagnosis
from crawlservice.models import Case

Cause, Blame = Case.Cause, Case.Blame
# Causes of which the pages say enough: no code makes a page a challenge.
OF_SITE = frozenset({Cause.CHALLENGE, Cause.HOST_DEAD, Cause.REDIRECTED})
MAJORITY = 0.5  # share of old values that are lost, from which on it is the commit


class TrialResult(NamedTuple):
    """Both versions on old pages of a spider. By part, such as ``items.price``: ``seen``, the
    number of values that the old version finds, and ``worse``, of those that the new one lost or
    changed; of errors the pages, and new errors. ``problem``: why it was not tried."""

    pages: int = 0
    seen: Mapping[str, int] = {}
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
    if trial is None or trial.problem or not _tells(trial, diagnosis.fields):
        proof["blame"] = "not_tried"
        proof["problem"] = trial.problem if trial else ""
        return Blame.UNKNOWN
    if trial.same_code:
        proof["blame"] = "same_code"
        return Blame.UNKNOWN if diagnosis.unchanged else Blame.SITE
    lost = _concerned(trial.worse, diagnosis.fields, "errors", "items")
    proof |= {"tried": trial.pages, "worse": lost}
    if any(n >= MAJORITY * trial.seen.get(part, trial.pages) for part, n in lost.items()):
        proof["blame"] = "fails_on_old"
        diagnosis.cause = Cause.COMMIT
        return Blame.COMMIT
    proof["blame"] = "well_on_old"
    return Blame.UNKNOWN if diagnosis.unchanged else Blame.SITE


def _tells(trial: TrialResult, fields: Sequence[str]) -> bool:
    """Whether the old pages have values of these fields, or lead to new errors."""
    known = trial.same_code or _concerned(trial.seen, fields) or trial.worse.get("errors")
    return bool(known)


def _concerned(numbers: Mapping[str, int], fields: Sequence[str], *others: str) -> dict[str, int]:
    """The numbers of the parts that concern these fields, and of ``others``; all of items if no
    field is named."""
    parts = {*others, *(f"items.{name}" for name in fields)}
    every = {part: n for part, n in numbers.items() if not fields and part.startswith("items")}
    return every | {part: n for part, n in numbers.items() if part in parts}
