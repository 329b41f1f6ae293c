"""Segments as they grow, and a disk that fails."""

from __future__ import annotations

import errno
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from crawlframe.errors import ArchiveError
from crawlframe.warc import CapturePlace, DirectoryArchive, SegmentWriter, recover
from crawlframe.warc.segment_writer import begun_at, is_segment, node_of
from tests.warc.captures import AT, body_of_page, judged, kinds, page, writer


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def append(segments: SegmentWriter, *numbers: int) -> list[CapturePlace]:
    places = segments.append([page(number) for number in numbers])
    segments.sync()
    return places


def check(directory: Path, places: dict[int, CapturePlace]) -> None:
    archive = DirectoryArchive(directory)
    for number, place in places.items():
        assert archive.read(place).payload == body_of_page(number)


def test_a_segment_is_open_until_it_is_finished(tmp_path: Path) -> None:
    segments = writer(tmp_path / "made/for it")
    directory = segments.directory
    [place] = append(segments, 1)
    assert names(directory) == [f"{place.segment}.open"]
    check(directory, {1: place})
    segments.close()
    assert names(directory) == [place.segment]
    check(directory, {1: place})
    assert is_segment(place.segment)
    assert node_of(place.segment) == "node-1"
    assert abs(begun_at(place.segment) - directory.stat().st_mtime) < 3600
    segments.close()  # nothing is open
    [other] = append(segments, 2)
    assert other.segment != place.segment


def test_a_reader_follows_a_segment_that_grows_and_is_finished(tmp_path: Path) -> None:
    segments, archive = writer(tmp_path), DirectoryArchive(tmp_path)
    [first] = append(segments, 1)
    assert archive.read(first).payload == body_of_page(1)
    [second] = append(segments, 2)
    segments.close()
    assert second.segment == first.segment
    assert archive.read(second).payload == body_of_page(2)


@pytest.mark.parametrize("limit", [{"max_bytes": 1}, {"max_age": 0.0}])
def test_each_limit_finishes_a_segment(tmp_path: Path, limit: dict[str, Any]) -> None:
    segments = writer(tmp_path, **limit)
    places = {number: append(segments, number)[0] for number in (1, 2, 3)}
    segments.tick()
    assert names(tmp_path) == sorted(place.segment for place in places.values())
    check(tmp_path, places)


def test_writers_share_a_directory(tmp_path: Path) -> None:
    writers = [writer(tmp_path, worker) for worker in (7, 7, 8)]
    places = {number: append(one, number)[0] for number, one in enumerate(writers)}
    assert len(names(tmp_path)) == 3
    assert recover(tmp_path) == []
    check(tmp_path, places)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file may be larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_batch_that_finds_no_room_leaves_nothing(tmp_path: Path) -> None:
    segments = writer(tmp_path)
    places = {1: append(segments, 1)[0]}
    path = tmp_path / f"{places[1].segment}.open"
    size = path.stat().st_size
    for _ in range(2):
        with room_for(size + 5000), pytest.raises(ArchiveError, match="File too large") as caught:
            segments.append([page(number) for number in range(2, 30)])
        assert str(tmp_path) in str(caught.value)
        assert path.stat().st_size > size  # a part was written
    places[30] = append(segments, 30)[0]
    assert places[30].offset == size
    segments.close()
    check(tmp_path, places)
    assert kinds(tmp_path / places[1].segment) == ["warcinfo", *["response", "request"] * 2]


def test_a_batch_of_many_bytes_is_taken_back_too(tmp_path: Path) -> None:
    segments = writer(tmp_path)
    places = {1: append(segments, 1)[0]}
    large = [page(number, os.urandom(1 << 20)) for number in range(9)]
    with room_for(6 << 20), pytest.raises(ArchiveError):
        segments.append(large)
    segments.close()
    [path] = tmp_path.iterdir()
    assert len(judged(path)) == 3
    check(tmp_path, places)


def test_no_room_for_the_beginning_of_a_segment(tmp_path: Path) -> None:
    segments = writer(tmp_path)
    with room_for(10), pytest.raises(ArchiveError):
        segments.append([page(1)])
    [place] = append(segments, 1)
    segments.close()
    recover(tmp_path)
    assert names(tmp_path) == [place.segment]


def test_a_capture_that_fails_leaves_nothing(tmp_path: Path) -> None:
    segments = writer(tmp_path)
    places = {1: append(segments, 1)[0]}

    def captures() -> Iterator[object]:
        yield page(2, os.urandom(5 << 20))
        raise KeyError("x")

    with pytest.raises(KeyError):
        segments.append(captures())  # type: ignore[arg-type]
    places[3] = append(segments, 3)[0]
    segments.close()
    [path] = tmp_path.iterdir()
    assert len(judged(path)) == 5
    check(tmp_path, places)


def test_a_directory_that_goes_away_is_not_made_again(tmp_path: Path) -> None:
    directory = tmp_path / "mount"
    segments = writer(directory)
    append(segments, 1)
    directory.rename(tmp_path / "elsewhere")
    with pytest.raises(ArchiveError, match="No such file or directory"):
        append(segments, 2)
    assert not directory.exists()
    (tmp_path / "elsewhere").rename(directory)
    [place] = append(segments, 2)
    check(directory, {2: place})


def test_a_segment_that_is_deleted_between_append_and_sync_is_noticed(tmp_path: Path) -> None:
    segments = writer(tmp_path)
    [place] = segments.append([page(1)])
    (tmp_path / f"{place.segment}.open").unlink()
    with pytest.raises(ArchiveError, match="is gone"):
        segments.sync()
    segments.sync()  # there is nothing to sync
    [again] = append(segments, 1)
    assert again.segment != place.segment
    check(tmp_path, {1: again})


def test_after_a_failed_sync_another_segment_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segments = writer(tmp_path)
    places = {1: append(segments, 1)[0]}
    [lost] = segments.append([page(2)])

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fail)
        with pytest.raises(ArchiveError, match="Input/output error"):
            segments.sync()
    places[2] = append(segments, 2)[0]
    assert places[2].segment != lost.segment
    assert recover(tmp_path) == [places[1].segment]
    check(tmp_path, places)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ArchiveError, match="Permission denied"):
        writer(tmp_path).append([page(1)])


def test_a_name_that_exists_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: AT)
    writers = [writer(tmp_path), writer(tmp_path)]
    places = {number: append(one, number)[0] for number, one in enumerate(writers)}
    assert len({place.segment for place in places.values()}) == 2
    check(tmp_path, places)


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ArchiveError, match="File exists"):
        writer(tmp_path / "file").append([page(1)])
