"""Segments in a bucket, which the nodes upload."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crawlframe.errors import ArchiveError, RecordElsewhere, RecordGone
from crawlframe.files import s3_client
from crawlframe.files.s3_client import PART
from crawlframe.warc import S3Archive, records_in
from crawlframe.warc import archive as of_archive
from tests.files.s3_server import S3Server
from tests.warc.captures import body_of_page, page, writer

pytest.importorskip("s3fs")


def archive_of(tmp_path: Path, node: str) -> S3Archive:
    return S3Archive("s3://bucket/pages/", tmp_path / node, node)


def test_a_segment_is_where_it_is_until_it_is_uploaded(s3: S3Server, tmp_path: Path) -> None:
    ours, theirs = archive_of(tmp_path, "node-1"), archive_of(tmp_path, "node-2")
    segments = writer(ours.directory)
    places = segments.append([page(1), page(2)])
    segments.sync()

    def check_elsewhere() -> None:
        assert ours.read(places[0]).payload == body_of_page(1)
        for read in (lambda: theirs.read(places[0]), lambda: theirs.open(places[0].segment)):
            with pytest.raises(RecordElsewhere, match="is on node node-1 until it is uploaded to"):
                read()

    check_elsewhere()
    assert ours.upload() == []
    segments.close()
    check_elsewhere()
    size = (ours.directory / places[0].segment).stat().st_size
    assert [*ours.segments()] == [(places[0].segment, size)]
    assert ours.upload() == [places[0].segment]
    assert [*s3.objects] == [f"bucket/pages/{places[0].segment}"]
    assert [*ours.directory.iterdir()] == []
    for archive in (ours, theirs):
        for number, place in enumerate(places, 1):
            assert archive.read(place).payload == body_of_page(number)
        kinds = [record.kind for record in records_in(archive, places[0].segment)]
        assert kinds == ["warcinfo", *["response", "request"] * 2]
        assert [*archive.segments()] == [(places[0].segment, size)]


def test_close_records_are_fetched_together(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = archive_of(tmp_path, "node-1"), archive_of(tmp_path, "node-2")
    first = writer(ours.directory, max_bytes=1)
    places = first.append([page(number) for number in range(20)])
    places += first.append([page(number) for number in range(20, 25)])
    first.close()
    ours.upload()
    fetches: list[int] = []
    system = theirs._client.system()
    fetch = system.cat_file

    def counted(key: str, start: int, end: int) -> bytes:
        fetches.append(end - start)
        found: bytes = fetch(key, start=start, end=end)
        return found

    monkeypatch.setattr(system, "cat_file", counted)
    wanted = [places[number] for number in (24, 3, 4, 7, 19, 20, 0)]
    found = theirs.read_all(wanted)
    for place in wanted:
        assert found[place].payload == body_of_page(places.index(place))
    assert len(fetches) == 2  # one of each segment
    monkeypatch.setattr(of_archive, "GAP", 0)
    monkeypatch.setattr(of_archive, "RUN", 0)
    assert theirs.read_all(wanted) == found
    assert len(fetches) == 2 + len(wanted)


def test_what_never_arrived_is_gone(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = archive_of(tmp_path, "node-1"), archive_of(tmp_path, "node-2")
    segments = writer(ours.directory)
    [place] = segments.append([page(1)])
    segments.close()
    monkeypatch.setattr(of_archive, "UPLOADED_BY", 0.0)
    with pytest.raises(RecordGone, match="or node node-1 could not upload it"):
        theirs.read(place)
    ours.upload()
    assert theirs.read(place).payload == body_of_page(1)
    theirs.delete(place.segment)
    with pytest.raises(RecordGone):
        ours.read(place)


def test_a_segment_stays_until_it_has_arrived(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_client, "TRIES", 1)
    archive = archive_of(tmp_path, "node-1")
    segments = writer(archive.directory)
    [place] = segments.append([page(1)])
    segments.close()
    s3.broken = True
    with pytest.raises(ArchiveError, match="the archive of pages s3://bucket/pages"):
        archive.upload()
    assert archive.read(place).payload == body_of_page(1)
    s3.broken = False
    assert archive.upload() == [place.segment]


def test_a_large_segment_is_uploaded_in_parts(s3: S3Server, tmp_path: Path) -> None:
    archive = archive_of(tmp_path, "node-1")
    segments = writer(archive.directory)
    large = [page(number, os.urandom(PART // 3)) for number in range(7)]
    places = segments.append(large)
    segments.close()
    archive.upload()
    assert s3.uploads == 1
    for place, capture in zip(places, large, strict=True):
        assert archive.read(place).payload == capture.body
