"""HostDirectory: short names, only for this user, and remains of killed processes are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crawlframe.fetch.browser.settings import HostDirectory

MAKE = """
import os, sys, tempfile
tempfile.tempdir = sys.argv[1]
from crawlframe.fetch.browser.settings import HostDirectory
made = HostDirectory()
made.socket.write_text("")
if os.fork() == 0:
    input()
    os._exit(0)
print(made.path, flush=True)
input()
"""


@pytest.fixture
def top(monkeypatch: pytest.MonkeyPatch) -> Path:
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="bd-", dir="/tmp"))
    monkeypatch.setattr("tempfile.tempdir", str(path))
    return path


def test_the_names_of_its_sockets_are_short(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(long))
    made = HostDirectory()
    assert made.path.parent == Path("/tmp")
    assert made.path.stat().st_mode & 0o777 == 0o700
    made.remove()
    assert not made.path.exists()


def test_what_a_killed_process_left_is_removed_when_its_children_have_ended(top: Path) -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(top)], stdin=reading, stdout=subprocess.PIPE, text=True
    )
    os.close(reading)
    assert process.stdout is not None
    left = Path(process.stdout.readline().strip())
    process.send_signal(signal.SIGKILL)
    process.wait()
    HostDirectory().remove()
    assert left.exists()  # its child lives
    os.close(writing)
    assert process.stdout.read() == ""  # until the child has ended
    process.stdout.close()
    made = HostDirectory()
    assert not left.exists()
    assert [*top.iterdir()] == [made.path]
    made.remove()
    top.rmdir()


def test_what_is_no_directory_of_ours_stays(top: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("")
    link, file = top / "crawlframe-browser-link", top / "crawlframe-browser-file"
    link.symlink_to(tmp_path)
    file.write_text("")
    HostDirectory().remove()
    assert (link.is_symlink(), file.exists()) == (True, True)
    assert (tmp_path / "kept").exists()
    link.unlink()
    file.unlink()
    top.rmdir()
