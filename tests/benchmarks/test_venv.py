"""Environments of the other crawlers that are measured. Nothing here uses the network."""

from __future__ import annotations

import platform
import subprocess
import sysconfig

import pytest

from benchmarks.lab import venv

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(venv, "PLACE", tmp_path / "bench")
    monkeypatch.setattr(venv, "CHECKOUT", tmp_path)
    return tmp_path


def test_it_is_made_once_and_anew_when_its_requirements_change(place, capsys, monkeypatch):
    """With an error of pip, which is shown, the environment does not count."""
    (place / "more.txt").write_text("# nothing\n")
    requirements = place / "requirements.txt"
    requirements.write_text("-r more.txt\n")
    python = venv.environment("peer", requirements)
    words = [str(python), "-c", "import platform; print(platform.python_version())"]
    told = subprocess.run(words, capture_output=True, text=True, check=True)
    assert told.stdout.strip() == platform.python_version()
    assert "pip" in venv.versions(python)
    mark = python.parent / "mark"
    mark.touch()
    assert venv.environment("peer", requirements) == python
    assert mark.exists()
    assert (venv.PLACE / "peer" / "stamp").exists()
    (place / "more.txt").write_text("./no-such-directory\n")
    _lend_pip(monkeypatch)
    with pytest.raises(RuntimeError, match="no-such-directory"):
        venv.environment("peer", requirements)
    assert not mark.exists()
    assert not (venv.PLACE / "peer" / "stamp").exists()
    assert capsys.readouterr().err.count("installing peer into bench/peer (once)") == 2


def _lend_pip(monkeypatch):
    """From here on environments use the pip of this one: to install it takes seconds."""
    run = venv._run

    def lent(command):
        run([*command, "--without-pip"] if command[1:3] == ["-m", "venv"] else command)

    monkeypatch.setattr(venv, "_run", lent)
    monkeypatch.setenv("PYTHONPATH", sysconfig.get_path("purelib"))
