"""When the installation of a package is complete."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlframe.node.code import Installation

FILES = {"crawlframe/__init__.py": "x = 1\n", "crawlframe/lua/claim.lua": "return 1\n"}


def install(folder: Path, version: str = "1.0", record: bool = True) -> Path:
    """Writes a package as pip does: its files, then RECORD."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    meta = folder / f"crawlframe-{version}.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Name: crawlframe\n")
    lines = [f"{name},sha256=x,{len(text)}" for name, text in FILES.items()]
    lines += [
        "crawlframe/__pycache__/__init__.cpython-311.pyc,,",
        "../../../bin/crawlframe,sha256=x,9",
    ]
    lines.append(f"{meta.name}/RECORD,,")
    if record:
        (meta / "RECORD").write_text("\n".join(lines) + "\n")
    return meta


def test_a_complete_installation_lacks_nothing(tmp_path: Path) -> None:
    install(tmp_path)
    assert Installation(tmp_path, "crawlframe").known
    assert Installation(tmp_path, "crawlframe").missing() == ""


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("text", [None, ""], ids=["absent", "being written"])
def test_a_file_of_the_record(tmp_path: Path, name: str, text: str | None) -> None:
    install(tmp_path)
    installation = Installation(tmp_path, "crawlframe")
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    assert installation.missing() == str(tmp_path / name)
    (tmp_path / name).write_text(FILES[name])
    assert installation.missing() == ""


def test_steps_of_an_upgrade(tmp_path: Path) -> None:
    meta = install(tmp_path)
    installation = Installation(tmp_path, "crawlframe")
    meta.rename(tmp_path / "~rawlframe-1.0.dist-info")
    assert "crawlframe-*.dist-info" in installation.missing()
    newer = install(tmp_path, "2.0", record=False)
    assert installation.missing() == str(newer / "RECORD")
    newer.joinpath("RECORD").write_text(f"{newer.name}/RECORD,,\n")
    assert installation.missing() == ""
    install(tmp_path, "1.0")
    assert "crawlframe-*.dist-info" in installation.missing()  # which of both is there?


def test_a_checkout_is_never_waited_for(tmp_path: Path) -> None:
    assert not Installation(tmp_path, "crawlframe").known
