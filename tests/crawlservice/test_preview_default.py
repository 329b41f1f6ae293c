"""Nodes ask about versions that lose data by default, in production."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlservice.management.commands.runcrawler import preview_of

SERVER = "redis://redis.example:6379/0"


@pytest.mark.parametrize(
    ("url", "debug", "reloads", "asks"),
    [
        (SERVER, False, True, "ask"),
        (SERVER, False, False, "off"),
        (SERVER, True, True, "off"),
        ("", False, True, "off"),
    ],
)
def test_the_default(
    settings_with: Callable[..., None], url: str, debug: bool, reloads: bool, asks: str
) -> None:
    settings_with(REDIS_URL=url, DEBUG=debug)
    assert preview_of(Settings.from_env({}), reloads) == asks
    for given in ("off", "ask", "refuse"):
        assert preview_of(Settings.from_env({"CRAWLFRAME_PREVIEW": given}), reloads) == given


def test_other_values_are_refused() -> None:
    with pytest.raises(ConfigError, match="must be one of off, ask, refuse"):
        Settings.from_env({"CRAWLFRAME_PREVIEW": "on"})
