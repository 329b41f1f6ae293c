"""Rules of alerts, as pure functions of the facts and of the time."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest

from crawlservice.alerts import announcements
from crawlservice.alerts.announcements import GATHER_SPAN, Batch, is_quiet, wants
from crawlservice.alerts.condition import conditions, least
from crawlservice.alerts.rule_fields import BadRule, check_kinds, check_thresholds
from crawlservice.models import Alert, AlertRule, Severity

NOW = datetime(2026, 11, 24, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)


def known(number: int = 1, **fields: Any) -> Alert:
    usual: dict[str, Any] = {
        "kind": "task_failed",
        "severity": Severity.SEVERE,
        "opened_at": LONG_AGO,
    }
    return Alert(pk=number, **(usual | fields))


def decide(
    rule: AlertRule,
    alerts: list[Alert],
    now: datetime = NOW,
    reported: dict[int, datetime] | None = None,
    last: dict[str, datetime] | None = None,
) -> list[Batch]:
    return announcements.decide(rule, alerts, reported or {}, last or {}, now)


def rule(**fields: Any) -> AlertRule:
    return AlertRule(name="all", **fields)


def told(*batches: Batch) -> list[Batch]:
    return [*batches]


def test_what_happens_together_is_one_message_for_each_condition() -> None:
    alerts = [known(1), known(2), known(3, kind="host_held", severity=Severity.WARNING)]
    assert decide(rule(), alerts) == told(
        Batch("task_failed", [1, 2], [], []), Batch("host_held", [3], [], [])
    )


def test_the_first_waits_a_moment_for_others() -> None:
    new = known(opened_at=NOW - GATHER_SPAN / 2)
    assert decide(rule(), [new]) == []
    assert decide(rule(), [new], NOW + GATHER_SPAN) != []


def test_further_ones_of_the_kind_wait_until_the_group_is_over() -> None:
    last = {"task_failed": NOW - timedelta(minutes=4)}
    reported = {1: NOW - timedelta(minutes=4)}
    alerts = [known(1), known(2), known(3)]
    assert decide(rule(), alerts, NOW, reported, last) == []
    later = NOW + timedelta(minutes=1)
    assert decide(rule(), alerts, later, reported, last) == told(
        Batch("task_failed", [2, 3], [], [])
    )
    other = [known(4, kind="silent")]
    assert decide(rule(), other, last=last) == told(Batch("silent", [4], [], []))


def test_it_is_told_once_and_repeated_after_hours_until_somebody_acknowledges() -> None:
    alert, reported = known(), {1: NOW}
    assert decide(rule(), [alert], NOW + timedelta(hours=23), reported) == []
    later = NOW + timedelta(hours=24)
    again = told(Batch("task_failed", [], [1], []))
    assert decide(rule(), [alert], later, reported) == again
    assert decide(rule(repeat_hours=0), [alert], later, reported) == []
    alert.acknowledged_at = NOW
    assert decide(rule(), [alert], later, reported) == []


def test_what_is_acknowledged_or_silenced_before_it_was_told_is_not_told() -> None:
    assert decide(rule(), [known(acknowledged_at=NOW)]) == []
    silenced = known(silenced_until=NOW + timedelta(hours=1))
    assert decide(rule(), [silenced]) == []
    assert decide(rule(), [silenced], NOW + timedelta(hours=1)) != []


def test_the_end_is_reported_to_recipients_of_the_start() -> None:
    over, reported = known(resolved_at=NOW - timedelta(minutes=1)), {1: LONG_AGO}
    end = told(Batch("task_failed", [], [], [1]))
    assert decide(rule(), [over], NOW, reported) == end
    assert decide(rule(reports_resolved=False), [over], NOW, reported) == []
    assert decide(rule(), [over]) == []
    # Also if the rule would not tell of it now: its threshold was raised meanwhile.
    assert decide(rule(kinds=["silent"]), [over], NOW, reported) == end


@pytest.mark.parametrize(
    ("clock", "zone", "quiet"),
    [
        ("21:59", "UTC", False),
        ("22:00", "UTC", True),
        ("03:00", "UTC", True),
        ("06:59", "UTC", True),
        ("07:00", "UTC", False),
        ("14:00", "Asia/Shanghai", True),  # 22:00 there
        ("23:00", "Asia/Shanghai", False),
        ("22:00", "Nowhere/AtAll", True),  # as UTC
        ("22:00", "../etc/passwd", True),
    ],
)
def test_quiet_hours_cross_midnight_and_are_those_of_a_zone(
    clock: str, zone: str, quiet: bool
) -> None:
    now = datetime.combine(NOW.date(), time.fromisoformat(clock), UTC)
    assert is_quiet(time(22), time(7), zone, now) is quiet


def test_quiet_hours_within_a_day_and_none() -> None:
    assert is_quiet(time(12), time(13), "UTC", NOW)
    assert not is_quiet(time(13), time(14), "UTC", NOW)
    assert not is_quiet(None, time(7), "UTC", NOW)
    assert not is_quiet(time(12), time(12), "UTC", NOW)


def test_quiet_hours_move_with_daylight_saving() -> None:
    summer, winter = (datetime(2026, month, 1, 5, 30, tzinfo=UTC) for month in (7, 12))
    assert not is_quiet(time(22), time(7), "Europe/Berlin", summer)  # 07:30 there
    assert is_quiet(time(22), time(7), "Europe/Berlin", winter)  # 06:30 there


def test_in_quiet_hours_only_severe_ones_pass() -> None:
    quiet = {"quiet_from": time(11), "quiet_until": time(13)}
    severe, warning = known(1), known(2, kind="host_held", severity=Severity.WARNING)
    alerts = [severe, warning]
    assert decide(rule(**quiet), alerts) == told(Batch("task_failed", [1], [], []))
    assert decide(rule(**quiet, severe_passes=False), alerts) == []
    afterwards = decide(rule(**quiet), [warning], NOW + timedelta(hours=1))
    assert afterwards == told(Batch("host_held", [2], [], []))


def test_what_came_and_went_in_quiet_hours_is_not_told_afterwards() -> None:
    quiet = {"quiet_from": time(11), "quiet_until": time(13), "severe_passes": False}
    gone = known(resolved_at=NOW)
    assert decide(rule(**quiet), [gone], NOW + timedelta(hours=2)) == []


@pytest.mark.parametrize(
    ("fields", "alert", "wanted"),
    [
        ({}, {}, True),
        ({"kinds": ["silent"]}, {}, False),
        ({"kinds": ["silent", "task_failed"]}, {}, True),
        ({"least_severity": Severity.SEVERE}, {"severity": Severity.WARNING}, False),
        ({"spiders": ["shop"]}, {"spider": "shop"}, True),
        ({"spiders": ["shop"]}, {"spider": "news"}, False),
        ({"spiders": ["shop"]}, {"kind": "node_gone"}, False),
        ({"hosts": ["a.example"]}, {"host": "a.example"}, True),
        ({"hosts": ["a.example"]}, {"host": "b.example"}, False),
        ({"labels": ["team=red"]}, {"labels": {"team": "red", "x": "y"}}, True),
        ({"labels": ["team=red"]}, {"labels": {"team": "blue"}}, False),
        ({"labels": ["team=red"]}, {}, False),
        ({"thresholds": {"silent": 30}}, {"kind": "silent", "value": 29.0}, False),
        ({"thresholds": {"silent": 30}}, {"kind": "silent", "value": 30.0}, True),
        ({"thresholds": {"silent": 30}}, {"kind": "disk", "value": 1.0}, True),
    ],
)
def test_a_rule_wants_what_it_names(
    fields: dict[str, Any], alert: dict[str, Any], wanted: bool
) -> None:
    assert wants(rule(**fields), known(**alert)) is wanted


def test_the_least_threshold_of_all_rules_counts() -> None:
    usual = conditions()["silent"].threshold
    assert usual is not None
    assert least([])["silent"] == usual.usual
    assert least([{"silent": 3}, {"silent": 5, "disk": 99}])["silent"] == 3
    assert least([{"disk": 99}])["disk"] == 90
    assert "task_failed" not in least([{"task_failed": 1, "silent": "x"}])


@pytest.mark.parametrize(
    ("thresholds", "says"),
    [
        ({"task_failed": 1}, "task_failed has no threshold; these have: no_leader, silent"),
        ({"disk": 101}, "the threshold of disk must be a number from 1 to 100 (percent)"),
        ({"disk": True}, "must be a number"),
        ({"disk": "90"}, "must be a number"),
        ({"disk": float("nan")}, "must be a number"),
    ],
)
def test_bad_thresholds_are_refused_by_name(thresholds: dict[str, Any], says: str) -> None:
    with pytest.raises(BadRule) as caught:
        check_thresholds(thresholds)
    assert says in str(caught.value)
    assert check_thresholds({"disk": 80}) == {"disk": 80.0}


def test_unknown_conditions_are_refused() -> None:
    assert check_kinds(["silent", "silent"]) == ["silent"]
    with pytest.raises(
        BadRule, match="there is no condition rain; there are no_leader, chores, node_gone"
    ):
        check_kinds(["rain"])
