"""Environments of the other crawlers that are measured. Nothing here uses the network."""

from __future__ import annotations

import platform
import subprocess

import pytest

from benchmarks.lab import venv

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(venv, "PLACE", tmp_path / "bench")
    monkeypatch.setattr(venv, "CHECKOUT", tmp_path)
    return tmp_path


def test_it_is_made_once_and_anew_when_its_requirements_change(place, capsys):
    (place / "pins.txt").write_text("# pins\n")
    requirements = place / "requirements.txt"
    requirements.write_text("-c pins.txt\n")
    python = venv.environment("peer", requirements)
    words = [str(python), "-c", "import platform; print(platform.python_version())"]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == platform.python_version()
    assert "pip" in venv.versions(python)
    mark = python.parent / "mark"
    mark.touch()
    assert venv.environment("peer", requirements) == python
    assert mark.exists()
    (place / "pins.txt").write_text("# other pins\n")
    assert venv.environment("peer", requirements) == python
    assert not mark.exists()
    assert capsys.readouterr().err.count("installing peer into bench/peer (once)") == 2


def test_errors_of_pip_are_shown_and_the_environment_does_not_count(place):
    requirements = place / "requirements.txt"
    requirements.write_text("./no-such-directory\n")
    with pytest.raises(RuntimeError, match="no-such-directory"):
        venv.environment("peer", requirements)
    assert not (venv.PLACE / "peer" / "stamp").exists()
