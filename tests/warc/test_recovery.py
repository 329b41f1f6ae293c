"""Torn tails, damage, and writers that live."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from crawlframe.errors import PageDamaged
from crawlframe.warc import CapturePlace, DirectoryArchive, records_in, recover
from crawlframe.warc.segment_writer import OPEN
from tests.warc.captures import body_of_page, judged, page, writer

PAGES = 12


@pytest.fixture
def places(tmp_path: Path) -> list[CapturePlace]:
    """Places of pages in a segment whose writer is dead."""
    segments = writer(tmp_path)
    found = segments.append([page(number) for number in range(PAGES)])
    segments.sync()
    os.close(segments._file)
    return found


@pytest.fixture
def path(tmp_path: Path, places: list[CapturePlace]) -> Path:
    return tmp_path / f"{places[0].segment}{OPEN}"


def complete(path: Path) -> list[int]:
    """The ends of the records."""
    archive = DirectoryArchive(path.parent)
    return [r.offset + r.length for r in records_in(archive, path.name.removesuffix(OPEN))]


def test_a_segment_that_ends_well_is_finished_as_it_is(
    path: Path, places: list[CapturePlace]
) -> None:
    before = path.read_bytes()
    assert recover(path.parent) == [places[0].segment]
    assert (path.parent / places[0].segment).read_bytes() == before
    assert recover(path.parent) == []


def test_every_torn_tail_is_cut(path: Path, places: list[CapturePlace]) -> None:
    """Cut anywhere, or followed by anything: complete records remain."""
    whole, ends, chance = path.read_bytes(), complete(path), random.Random(1)
    second = ends[1]  # the warcinfo and one record
    cuts = [second, *(end + one for end in ends[2:-1] for one in (-1, 0, 1))]
    cuts += [chance.randrange(second, len(whole)) for _ in range(60)]
    for cut in cuts:
        tail = chance.choice([b"", b"\0" * 5000, os.urandom(99), whole[second - 900 : second - 5]])
        torn = whole[:cut] + tail
        path.write_bytes(torn)
        assert recover(path.parent) == [places[0].segment]
        final = path.parent / places[0].segment
        same = next(
            (at for at, pair in enumerate(zip(whole, torn, strict=False)) if pair[0] != pair[1]),
            min(len(whole), len(torn)),
        )
        expected = max(end for end in ends if end <= same)
        assert final.read_bytes() == whole[:expected]
        judged(final)
        archive = DirectoryArchive(path.parent)
        for number, place in enumerate(places):
            if place.offset + place.length <= expected:
                assert archive.read(place).payload == body_of_page(number)
        final.unlink()


def test_a_segment_without_a_page_is_deleted(path: Path) -> None:
    whole, ends = path.read_bytes(), complete(path)
    for size in (0, 5, ends[0], ends[0] + 9):
        path.write_bytes(whole[:size])
        assert recover(path.parent) == []
        assert [*path.parent.iterdir()] == []


def test_what_follows_damage_is_left(
    path: Path, places: list[CapturePlace], caplog: pytest.LogCaptureFixture
) -> None:
    damaged = bytearray(path.read_bytes())
    for at in range(places[5].offset + 20, places[5].offset + places[5].length):
        damaged[at] ^= 0xFF
    path.write_bytes(damaged + b"torn")
    assert recover(path.parent) == [places[0].segment]
    assert "are damaged, and are left" in caplog.text
    archive = DirectoryArchive(path.parent)
    for number, place in enumerate(places):
        if number != 5:
            assert archive.read(place).payload == body_of_page(number)
    with pytest.raises(PageDamaged, match=f"at byte {places[5].offset} of {places[5].segment}"):
        archive.read(places[5])
    with pytest.raises(PageDamaged, match="no complete record follows"):
        [*records_in(archive, places[0].segment)]


def test_living_writers_are_left_alone(
    tmp_path: Path, path: Path, places: list[CapturePlace]
) -> None:
    living = writer(tmp_path, worker=8)
    living.append([page(1)])
    assert recover(tmp_path) == [places[0].segment]
    [place] = living.append([page(2)])
    living.close()
    assert DirectoryArchive(tmp_path).read(place).payload == body_of_page(2)


def test_only_segments_of_a_node_are_recovered(tmp_path: Path, path: Path) -> None:
    assert recover(tmp_path, "node") == []
    (tmp_path / "pages-1.warc.gz.open").write_bytes(b"not ours")
    assert recover(tmp_path, "node-1") == [path.name.removesuffix(OPEN)]
    assert (tmp_path / "pages-1.warc.gz.open").exists()


def test_a_directory_that_does_not_exist_has_none(tmp_path: Path) -> None:
    assert recover(tmp_path / "missing") == []
