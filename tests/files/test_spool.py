"""The spool: the rest of a file is continued by the next attempt, and by nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlframe.files import spool as module
from crawlframe.files.spool import KEPT_SECONDS, UNUSED_SECONDS, Spool

URL = "http://files.example/a.zip"
TAG = '"v1"'


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool")


def begin(spool: Spool, data: bytes = b"begin", validator: str = TAG) -> None:
    partial = spool.open("a", URL)
    partial.restart()
    partial.describe(URL, validator)
    partial.write(data)
    partial.close()


def size(spool: Spool, url: str = URL) -> int:
    partial = spool.open("a", url)
    partial.close()
    return partial.size


def names(spool: Spool) -> list[str]:
    return sorted(path.name for path in spool.directory.iterdir())


def test_the_next_attempt_goes_on(spool: Spool) -> None:
    begin(spool)
    partial = spool.open("a", URL)
    assert (partial.size, partial.validator) == (5, TAG)
    partial.write(b" end")
    partial.complete()
    assert partial.path.read_bytes() == b"begin end"
    partial.discard()
    assert names(spool) == []


def test_what_nothing_identifies_is_dropped(spool: Spool) -> None:
    begin(spool, validator="")
    assert names(spool) == []


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"url": "http://files.example/b"}'])
def test_a_file_with_an_unreadable_note_starts_anew(spool: Spool, note: bytes) -> None:
    begin(spool)
    (spool.directory / "a.json").write_bytes(note)
    partial = spool.open("a", URL)
    assert (partial.size, partial.validator, partial.path.read_bytes()) == (0, "", b"")
    partial.close()


def test_another_url_begins_anew(spool: Spool) -> None:
    begin(spool)
    assert size(spool, URL + "?2") == 0


def test_after_a_crash_of_the_machine_it_begins_anew(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(spool)
    monkeypatch.setattr(module, "_boot", lambda: "another")
    assert size(spool) == 0


def test_two_attempts_at_once_have_files_of_their_own(spool: Spool) -> None:
    begin(spool)
    one, two = spool.open("a", URL), spool.open("a", URL)
    assert one.path != two.path
    assert (one.size, two.size) == (5, 0)
    two.write(b"two")
    assert one.path.read_bytes() == b"begin"
    one.close()
    two.close()
    assert names(spool) == ["a.json", "a.part"]


def test_what_killed_processes_have_left_is_swept(spool: Spool) -> None:
    begin(spool)
    locked = spool.open("b", URL)
    (spool.directory / "c.part").write_bytes(b"of a killed one")
    (spool.directory / "d.json").write_bytes(b"{}")
    now = (spool.directory / "c.part").stat().st_mtime
    assert spool.sweep(now + UNUSED_SECONDS / 2) == 0
    assert spool.sweep(now + 2 * UNUSED_SECONDS) == 2
    assert names(spool) == ["a.json", "a.part", "b.part"]
    assert spool.sweep(now + 2 * KEPT_SECONDS) == 1
    assert names(spool) == ["b.part"]
    locked.close()


def test_a_spool_that_does_not_exist_is_clean(spool: Spool) -> None:
    assert spool.sweep() == 0
