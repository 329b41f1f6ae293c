"""One log format: time, level, node and process, logger, message, on standard error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crawlframe.base.logs import config
from crawlframe.errors import ConfigError

LOG = """
import logging, os, sys
from crawlframe.base.logs import configure
configure("info", "node%1")
logging.getLogger("shop").debug("hidden")
logging.getLogger("shop").info("seen by %s", os.getpid())
if os.fork() == 0:
    logging.getLogger("shop").warning("seen by %s", os.getpid())
    os._exit(0)
os.wait()
"""


def test_each_line_names_time_level_node_process_and_logger():
    outcome = subprocess.run(
        [sys.executable, "-c", LOG],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
    )
    lines = outcome.stderr.splitlines()
    assert len(lines) == 2
    for line, level in zip(lines, ("INFO   ", "WARNING"), strict=True):
        day, clock, rest = line.split(" ", 2)
        assert (len(day), len(clock)) == (len("2026-01-01"), len("00:00:00.000"))
        pid = line.rpartition(" ")[2]
        assert rest == f"{level} node%1/{pid} shop: seen by {pid}"


REFUSED = """
import logging
from types import SimpleNamespace
from crawlframe.base.logs import configure
from django.conf import settings
settings.configure()
from django.utils.log import log_response
configure("info", "node")
for status in (403, 500):
    response = SimpleNamespace(status_code=status)
    try:
        raise PermissionError("raised here")
    except PermissionError as error:
        log_response("%s", "/admin/x", response=response, request=None, exception=error)
"""


def test_a_403_is_one_line_and_a_500_has_its_traceback() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", REFUSED],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
    )
    first, second, *traceback = outcome.stderr.splitlines()
    assert first.endswith("django.request: /admin/x")
    assert second.endswith("django.request: /admin/x")
    assert traceback[-1] == "PermissionError: raised here"


def test_an_unknown_level_is_refused():
    with pytest.raises(ConfigError, match="CRAWLFRAME_LOG_LEVEL='loud' is none of DEBUG"):
        config("loud", "node")
