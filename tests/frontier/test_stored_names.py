"""Names in Redis stay the same when the code is renamed: nodes of other releases use them too."""

from __future__ import annotations

import json

import msgspec

from crawlframe.frontier import NodeInfo
from crawlframe.frontier.client.keys import KEYS

STORED = {
    "TRIED_VERSIONS": "trails",
    "TASKS_BY_TRIED": "trail:.",
    "PARKED_BY_TRIED": "stranded:.",
    "STARVED": "hungry",
    "CALL_LOG": "pulse:.",
}


def test_keys() -> None:
    assert {name: KEYS[name][0] for name in STORED} == STORED


def test_the_health_of_a_node() -> None:
    node = NodeInfo(1, "alpha", "host", "place", 2, 3.0, workers=4, lease_left=5.0)
    node = msgspec.structs.replace(node, health=msgspec.structs.replace(node.health, deaths=6))
    row = msgspec.json.encode(node)
    assert json.loads(row)["fitness"]["deaths"] == 6
    assert msgspec.json.decode(row, type=NodeInfo) == node
