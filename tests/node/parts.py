"""Parts that many tests of a node share."""

from __future__ import annotations

from typing import cast

from crawlframe.node.services import Services

NO_SERVICES = cast(Services, None)  # of a pool that forks nothing
