"""exports.toml: its exports run, and mistakes name the file, the line and the fix."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from crawlframe.conf import Settings
from crawlservice.exports import changes
from crawlservice.exports import file as exports_file
from crawlservice.exports.file import ExportsFile, apply, read
from crawlservice.models import Export, ExportFile

pytestmark = pytest.mark.usefixtures("orm", "place")

GOOD = """\
[houses]
spider = "houses"
begin = 2026-11-01
[houses.target]
kind = "files"
url = "houses"

[rows]
labels = { domain = "news" }
target = { kind = "table", url = "postgresql://ann:${DB_PASSWORD}@db.example/x", table = "rows" }
"""


@pytest.fixture
def place(tmp_path: Path, settings_with: Callable[..., None]) -> None:
    settings_with(EXPORT_DIR=tmp_path / "exports")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a package of spiders, named in the settings ``node()`` returns."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(exports_file, "LOOK_SECONDS", 0.0)
    monkeypatch.setenv("DB_PASSWORD", "hush-hush")
    directory = tmp_path / "exported_spiders"
    directory.mkdir()
    (directory / "__init__.py").touch()
    return directory


def node() -> Settings:
    return replace(Settings(), spiders="exported_spiders", node="alpha")


def test_what_it_defines_is_added_changed_and_stopped(package: Path) -> None:
    path = package / "exports.toml"
    path.write_text(GOOD)
    file = ExportsFile(node())
    file.look()
    houses, rows = Export.objects.order_by("name")
    assert (houses.spider, houses.from_file, houses.listed) == ("houses", True, True)
    assert houses.since is not None
    assert rows.target["url"] == "postgresql://ann:********@db.example/x"
    assert "hush-hush" in str(changes.target_of(rows))
    assert not ExportFile.objects.exists()
    file.look()  # not read again
    assert [*Export.objects.values_list("changed", flat=True)] == [0, 0]

    Export.objects.update(position=7)
    path.write_text(GOOD.replace('spider = "houses"', 'spider = "shop"').partition("[rows]")[0])
    file.look()
    houses, rows = Export.objects.order_by("name")
    assert (houses.spider, houses.position, houses.changed) == ("shop", 7, 1)
    assert (rows.listed, rows.active) == (False, False)
    path.write_text(GOOD)
    file.look()
    assert Export.objects.get(name="rows").active
    path.unlink()
    file.look()
    assert not Export.objects.filter(listed=True).exists()
    (problem,) = ExportFile.objects.get().problems
    assert problem.startswith("there is no exports.toml in exported_spiders, so the exports")
    assert problem.endswith("houses, rows; delete them, or put the file back")
    Export.objects.all().delete()
    file.look()
    assert ExportFile.objects.get().problems == []


def test_a_leader_without_the_spiders_ends_no_exports(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "exports.toml").write_text(GOOD)
    ExportsFile(node()).look()
    other = ExportsFile(replace(node(), spiders="nowhere_installed", node="beta"))
    other.look()
    assert Export.objects.filter(listed=True).count() == 2
    file = ExportFile.objects.get()
    assert file.node == "beta"
    assert "there is no package nowhere_installed here" in file.problems[0]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[houses\n", "exports.toml:1: not TOML"),
        ("houses = 1\n", "exports.toml:1: houses: write a table [houses]"),
        ("\n[houses]\n", "exports.toml:2: houses: target: it is missing; add it"),
        (
            '[houses]\n[houses.target]\nkind = "files"\nurl = "x"\nmax_mb = 0\n',
            "exports.toml:5: houses: target.max_mb: Input should be greater than or equal to 1",
        ),
        (
            '[houses]\nspidr = "x"\n[houses.target]\nkind = "files"\nurl = "x"\n',
            "exports.toml:2: houses: spidr: there is no such field (did you mean 'spider'?)",
        ),
        (
            '[houses]\n[houses.target]\nkind = "files"\nurl = "../x"\n',
            "exports.toml:4: houses: target.url: ../x is not below",
        ),
        (
            '[houses]\n[houses.target]\nkind = "http"\nurl = "https://a.example"\n',
            "exports.toml:2: houses: target.secret: name the secret that signs requests",
        ),
        (
            '[houses]\n[houses.target]\nkind = "files"\nurl = "s3://${NONE}/x"\n',
            "exports.toml:1: houses: the environment has no NONE; set it on all nodes",
        ),
        (
            '[houses]\nbegin = "soon"\n[houses.target]\nkind = "files"\nurl = "x"\n',
            "exports.toml:1: houses: begin: 'soon' is no point to start at: write beginning",
        ),
    ],
)
def test_a_mistake_names_line_entry_and_fix(package: Path, text: str, told: str) -> None:
    path = package / "exports.toml"
    good = '\n[good.target]\nkind = "files"\nurl = "good"\n'
    path.write_text(text if "not TOML" in told else text + good)
    ExportsFile(node()).look()
    (problem,) = ExportFile.objects.get().problems
    assert told in problem
    assert [row.name for row in Export.objects.all()] == ([] if "not TOML" in told else ["good"])


def test_a_file_that_cannot_be_read_stops_nothing(package: Path) -> None:
    path = package / "exports.toml"
    path.write_text(GOOD)
    file = ExportsFile(node())
    file.look()
    path.write_text(GOOD + "[")
    file.look()
    assert Export.objects.filter(listed=True).count() == 2
    assert len(ExportFile.objects.get().problems) == 1
    path.write_text(GOOD)
    file.look()
    assert ExportFile.objects.get().problems == []


def test_an_export_of_that_name_from_elsewhere_stays(package: Path) -> None:
    path = package / "exports.toml"
    path.write_text(GOOD)
    entries, _, _ = read(path, {"DB_PASSWORD": "x"})
    changes.add(entries[0].definition)
    (problem,) = apply(path)
    assert "exports.toml:1: houses: an export of that name was added elsewhere" in problem


def test_the_command_checks_the_file(
    package: Path, settings_with: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    settings_with(CRAWLFRAME=node())
    with pytest.raises(CommandError, match=r"there is no exports\.toml"):
        call_command("export", "check")
    (package / "exports.toml").write_text(GOOD)
    call_command("export", "check")
    assert "no mistakes" in capsys.readouterr().out
    (package / "exports.toml").write_text("x = 1")
    with pytest.raises(CommandError, match=r"exports\.toml:1: x: write a table"):
        call_command("export", "check")
