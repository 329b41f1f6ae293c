"""Targets of exports are one file each: ours keep the contract, and packages can add some."""

from __future__ import annotations

import dataclasses
import ipaddress
import json
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from django.conf import settings
from pydantic import TypeAdapter

from crawlframe.conf import Settings
from crawlservice.exports import changes, target
from crawlservice.exports.addresses import Address
from crawlservice.exports.definition import Definition
from crawlservice.exports.target import (
    GROUP,
    BatchName,
    ExportBatch,
    FormField,
    Limits,
    Target,
    TargetKind,
    Text,
    Writer,
    kinds,
    place_of,
)
from crawlservice.exports.targets import files, http
from crawlservice.kinds import registry
from crawlservice.models import Export
from crawlservice.testing.target_contract import TargetContract
from tests.crawlservice.exporting import add, drive, fill, made_task
from tests.crawlservice.receiver import Receiver

pytestmark = pytest.mark.usefixtures("orm")


class TestFiles(TargetContract):
    kind = files.TARGET

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path, settings_with: Callable[..., None]) -> None:
        settings_with(EXPORT_DIR=tmp_path)
        self.path = tmp_path / "houses"

    def make(self) -> Target:
        return files.FilesTarget(kind="files", url="houses")

    def rows(self) -> list[dict[str, Any]]:
        found = sorted(self.path.glob("*")) if self.path.is_dir() else []
        return [json.loads(line) for one in found for line in one.read_text().splitlines()]


class TestHttp(TargetContract):
    kind = http.TARGET
    exactly_once = False  # the receiver knows a batch by its Idempotency-Key

    @pytest.fixture(autouse=True)
    def receiver(self, settings_with: Callable[..., None]) -> Iterator[None]:
        loopback = (ipaddress.ip_network("127.0.0.0/8"),)
        settings_with(CRAWLFRAME=dataclasses.replace(settings.CRAWLFRAME, webhook_private=loopback))
        self.server = Receiver()
        yield
        self.server.close()

    def make(self) -> Target:
        return http.HttpTarget(kind="http", url=self.server.url, secret="whsec_" + "a" * 32)

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for told in self.server.told for line in told.body.splitlines()]


# -- targets of packages ---------------------------------------------------------------------------

SHELF: list[dict[str, Any]] = []


class ShelfWriter:
    limits = Limits(rows=100, bytes=1 << 20)

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        SHELF.extend(row for rows in batch.chunks() for row in rows)
        return f"shelf, to {name.last}"

    def test(self, name: BatchName, empty: ExportBatch) -> None: ...

    def close(self) -> None: ...


class ShelfTarget(Target):
    """A shelf."""

    SECRETS = ("password",)

    kind: Literal["shelf"]
    board: Annotated[Text, FormField("Board", "from the top")]
    password: Text = ""

    @property
    def destination(self) -> Address:
        return (self.kind,)

    def open(self, node: Settings, installation: str) -> Writer:
        return ShelfWriter()

    @classmethod
    def place(cls, shown: Mapping[str, Any]) -> str:
        return f"board {shown['board']}"


SHELF_KIND = TargetKind("shelf", "Shelf", ShelfTarget)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with a shelf; definitions are made as at the start of a process."""
    point = EntryPoint("shelf", f"{__name__}:SHELF_KIND", GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == GROUP else [])
    kinds.cache_clear()
    SHELF.clear()
    yield
    monkeypatch.undo()
    kinds.cache_clear()


def test_ours_have_a_module_each() -> None:
    folder = Path(target.__file__).parent / "targets"
    assert [*kinds()] == sorted(path.stem for path in folder.glob("[!_]*.py"))
    for kind in kinds().values():
        fields = kind.definition.model_fields
        for name, info in fields.items():
            labelled = any(isinstance(one, FormField) for one in info.metadata)
            assert labelled or name == "kind", f"{kind.name}.{name} has no label"
        assert set(kind.definition.SECRETS) <= fields.keys()


def test_a_target_of_a_package_exports(installed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [*kinds()] == ["files", "http", "kafka", "shelf", "table"]
    made = Definition.model_validate({"name": "h", "target": {"kind": "files", "url": "a"}})
    made.target = ShelfTarget(kind="shelf", board="2", password="geheim")
    monkeypatch.setattr(changes, "TARGET", TypeAdapter(ShelfTarget))  # as in a new process
    fill(made_task(), 2)
    export, _secret = changes.add(made)
    assert "geheim" not in str(export.target)
    assert place_of(export.target) == "board 2"
    row = drive(export)
    assert (row.rows, row.last_batch, len(SHELF)) == (6, "shelf, to 6", 6)


def test_one_whose_package_is_gone_says_so(orm: str, tmp_path: Path, settings_with: Any) -> None:
    settings_with(EXPORT_DIR=tmp_path)
    fill(made_task(), 1)
    export = add({"kind": "files", "url": "a"})
    Export.objects.update(target={"kind": "shelf", "board": "2"})
    row = drive(export)
    assert "no package here adds the target shelf" in row.problem
    assert place_of(row.target) == "shelf"
