"""node: nodes of the cluster."""

from __future__ import annotations

from crawlservice.cli.nodes.listing import CheckNode, ForgetNode, ListNodes
from crawlservice.cli.nodes.rollout import RollOut
from crawlservice.cli.noun import Noun


class Command(Noun):
    verbs = {
        "list": ListNodes,
        "check": CheckNode,
        "forget": ForgetNode,
        "rollout": RollOut,
    }
