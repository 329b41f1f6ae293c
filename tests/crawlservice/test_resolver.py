"""The project's resolver is loaded before the workers are forked; without it nothing starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.node.code import Code
from crawlservice.management.commands.runcrawler import check_resolver
from crawlservice.services import DjangoServices

RESOLVERS = [
    ("resolved_spiders.names:resolve", ""),
    ("resolved_spiders.names:missing", "cannot be imported"),
    ("resolved_spiders.names:plain", "must be an async function"),
    ("resolved_spiders.broken:resolve", "cannot be imported: ZeroDivisionError"),
    ("resolved_spiders.others:resolve", "No module named"),
    ("resolved_spiders.leaves:resolve", "the process that imports it died"),
    ("resolved_spiders.hangs:resolve", "its import takes more than 1 s"),
]


@pytest.fixture
def spiders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "resolved_spiders"
    directory.mkdir()
    for name, text in {
        "names": "async def resolve(host): ...\n\n\ndef plain(host): ...\n",
        "broken": "1 / 0\n",
        "leaves": "import os\n\nos._exit(3)\n",
        "hangs": "import time\n\ntime.sleep(60)\n",
    }.items():
        (directory / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield directory
    for name in [name for name in sys.modules if name.startswith(directory.name)]:
        del sys.modules[name]


@pytest.mark.forks
@pytest.mark.parametrize(("resolver", "problem"), RESOLVERS[:5])
def test_no_worker_can_run_without_the_resolver(spiders: Path, resolver: str, problem: str) -> None:
    settings = Settings(var_dir=spiders.parent, spiders=spiders.name, resolver=resolver)
    services = DjangoServices(settings, "", Code(spiders, Path("manage.py")), once=True)
    unfit = services.unfit()
    assert problem in unfit
    assert bool(problem) == bool(unfit)


@pytest.mark.forks
@pytest.mark.parametrize(("resolver", "problem"), RESOLVERS)
def test_the_resolver_is_tried_before_a_node_starts(
    spiders: Path, resolver: str, problem: str
) -> None:
    settings = Settings(spiders=spiders.name, resolver=resolver, load_timeout=1.0)
    if not problem:
        check_resolver(settings)
    else:
        with pytest.raises(ConfigError, match=problem) as caught:
            check_resolver(settings)
        assert str(caught.value).startswith(f"CRAWLFRAME_RESOLVER={resolver!r}")
        assert str(caught.value).endswith("or leave the setting out")
    assert resolver.partition(":")[0] not in sys.modules  # of a process that forks workers


@pytest.mark.process
@pytest.mark.parametrize("options", [(), ("--reload",)])
def test_a_node_without_its_resolver_does_not_start(
    manage: Callable[..., subprocess.CompletedProcess[str]],
    manage_env: dict[str, str],
    options: tuple[str, ...],
) -> None:
    manage_env["CRAWLFRAME_RESOLVER"] = "no.such.module:resolve"
    done = manage("runcrawler", *options)
    assert done.returncode == 1
    assert "CRAWLFRAME_RESOLVER='no.such.module:resolve' cannot be imported" in done.stderr
    assert "leave the setting out" in done.stderr
    assert "Traceback" not in done.stderr
