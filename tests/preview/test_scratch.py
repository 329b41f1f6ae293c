"""Directories of previews that were killed are removed by the next one."""

from __future__ import annotations

import os
import signal
import tempfile
from pathlib import Path

import pytest

from crawlframe.preview.scratch import PREFIX, scratch

pytestmark = pytest.mark.forks


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def holder() -> int:
    """A process that has a directory, and stays."""
    told, tells = os.pipe()
    pid = os.fork()
    if pid == 0:
        with scratch() as place:
            (place / "tree").mkdir()
            (place / "tree" / "file").write_text("x")
            os.write(tells, b".")
            signal.pause()
    assert os.read(told, 1) == b"."
    os.close(told)
    os.close(tells)
    return pid


def test_it_is_removed_at_the_end(temporary: Path) -> None:
    with scratch() as place:
        (place / "file").write_text("x")
        assert [*temporary.iterdir()] == [place]
    assert not [*temporary.iterdir()]


def test_a_killed_process_leaves_it_to_the_next(temporary: Path) -> None:
    pid = holder()
    try:
        with scratch() as place:
            assert len([*temporary.iterdir()]) == 2  # that of a process that lives stays
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert len([*temporary.iterdir()]) == 1
    with scratch() as place:
        assert [*temporary.iterdir()] == [place]


def test_a_fork_keeps_it(temporary: Path) -> None:
    with scratch() as place:
        told, tells = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(tells)
            os.read(told, 1)
            os._exit(0)
        with scratch():
            assert place.exists()
        os.write(tells, b".")
        os.waitpid(pid, 0)
        os.close(told)
        os.close(tells)


def test_what_others_have_made_stays(temporary: Path) -> None:
    target = temporary / "target"
    target.mkdir()
    link = temporary / f"{PREFIX}link"
    link.symlink_to(target)
    file = temporary / f"{PREFIX}file"
    file.write_text("x")
    (temporary / "preview-of-another-program").mkdir()
    before = {*temporary.iterdir()}
    with scratch():
        pass
    assert {*temporary.iterdir()} == before
