"""The project's resolver is loaded with the spiders, before the workers are forked."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlframe.conf import Settings
from crawlframe.node.code import Code
from crawlservice.services import DjangoServices


def broken(tmp_path: Path, resolver: str) -> dict[str, str]:
    (tmp_path / "resolved_spiders").mkdir()
    (tmp_path / "resolved_spiders" / "names.py").write_text("async def resolve(host): ...\n")
    settings = Settings(var_dir=tmp_path, spiders="resolved_spiders", resolver=resolver)
    code = Code(tmp_path / "resolved_spiders", Path("manage.py"))
    services = DjangoServices(settings, "", code, once=True)
    return services.registry({}, 10, lambda module: None).broken


@pytest.mark.parametrize(
    ("resolver", "problem"),
    [
        ("resolved_spiders.names:resolve", ""),
        ("resolved_spiders.names:missing", "cannot be imported"),
        ("resolved_spiders.others:resolve", "No module named"),
    ],
)
def test_a_version_without_the_resolver_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resolver: str, problem: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    found = broken(tmp_path, resolver)
    assert [*found] == ([resolver.partition(":")[0]] if problem else [])
    assert problem in "".join(found.values())
