"""The table of growth and its URLs, without a server."""

from __future__ import annotations

from benchmarks.growth.cell import Cost
from benchmarks.growth.table import Line, goals, rows
from benchmarks.growth.web import Web

LINES = [
    Line("queued", 1_000, 1.0, [Cost(400, 40, 30), Cost(800, 80, 60)]),
    Line("queued", 100_000, 20.0, [Cost(440, 60, 30), Cost(960, 96, 60)]),
    Line("tasks", 1, 20.0, [Cost(400, 40, 30)] * 2),
    Line("tasks", 100, 20.0, [Cost(500, 44, 30)] * 2),
]


def test_growth_is_that_within_a_round() -> None:
    small, large, one, many = rows(LINES)
    assert small == [
        "1,000 queued",
        "600 (400-800)",
        "",
        "60 (40-80)",
        "",
        "45 (30-60)",
        "1.0",
    ]
    assert large[0] == "100,000 queued"
    assert large[2] == "1.15 (1.10-1.20)"
    assert large[4] == "1.35 (1.20-1.50)"
    assert (one[2], many[2]) == ("", "1.25")  # each row of sizes has its own first


def test_the_dearer_part_decides_about_the_goal() -> None:
    queued, tasks = goals(LINES)
    assert queued.endswith("1.15 (1.10-1.20) of the node, 1.35 (1.20-1.50) of Redis: missed")
    assert tasks == "goal 1.3 times from 1 to 100 open tasks: 1.25 of the node, 1.10 of Redis: met"


def test_urls_are_spread_over_hosts_and_tasks() -> None:
    web = Web(port=8000, hosts=1_000_000, tasks=10, queued=1_000_000)
    hosts = {web.url(number).split("/")[2] for number in range(0, 1_000_000, 999)}
    assert len(hosts) == 1_002
    assert all(host.startswith("127.") for host in hosts)
    assert web.admission(7, 5).rid != web.admission(8, 5).rid
    few = Web(port=8000, hosts=3, tasks=1, queued=100)
    assert {few.admission(1, number).host for number in range(100)} == {
        "127.0.0.1:8000", "127.0.0.2:8000", "127.0.0.3:8000",
    }  # fmt: skip
