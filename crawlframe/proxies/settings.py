"""ProxySettings: the settings of a spider that say through which proxies its requests go."""

from __future__ import annotations

from typing import Literal

import msgspec

from crawlframe.base.limits import Budgets
from crawlframe.proxies.selector import parse_selector


class ProxySettings(Budgets, frozen=True):
    """``proxy``: as ``Request`` takes it. ``proxy_limits``: whether delay, concurrency and rate of
    a host hold for each proxy of the pool or for all together."""

    proxy: str | None = None  # "pool", "pool:<tags>" or the URL of a proxy; None = no proxy
    proxy_limits: Literal["each", "all"] = "each"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.proxy is None:
            return
        try:
            msgspec.structs.force_setattr(self, "proxy", parse_selector(self.proxy))
        except ValueError as error:
            raise ValueError(f"proxy {error}") from None
