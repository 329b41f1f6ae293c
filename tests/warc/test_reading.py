"""Reading by place, and files that others wrote."""

from __future__ import annotations

import random
import zlib
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from crawlframe.base import deflate
from crawlframe.errors import ArchiveError, PageDamaged, RecordGone
from crawlframe.warc import CapturePlace, DirectoryArchive, records_of
from crawlframe.warc.archive import FILES
from crawlframe.warc.gzip_members import compress, decompress, members
from tests.warc.captures import body_of_page, page, writer


def test_a_place_that_is_not_of_a_record_is_refused(tmp_path: Path) -> None:
    segments, archive = writer(tmp_path), DirectoryArchive(tmp_path)
    place, other = segments.append([page(1), page(2)])
    segments.sync()
    for wrong in (
        place._replace(offset=place.offset + 1), place._replace(length=place.length - 1),
        place._replace(length=place.length + 1), place._replace(length=0),
        place._replace(offset=1 << 40), place._replace(length=other.offset - place.offset),
    ):  # fmt: skip
        with pytest.raises(PageDamaged, match=place.segment):
            archive.read(wrong)
    request = CapturePlace(place.segment, place.offset + place.length, 0)
    with pytest.raises(PageDamaged, match="is a request, which has no body"):
        archive.read(request._replace(length=other.offset - request.offset))


def test_no_flipped_bit_changes_a_body(tmp_path: Path) -> None:
    segments = writer(tmp_path)
    body, noticed = b"<p>" + b"word " * 50, 0
    [place] = segments.append([page(3, body)])
    [path] = tmp_path.iterdir()
    whole, chance = path.read_bytes(), random.Random(2)
    for at in range(place.offset, place.offset + place.length):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            assert DirectoryArchive(tmp_path).read(place).payload == body
        except PageDamaged:
            noticed += 1
    assert noticed >= place.length - 8  # some bits of a member's header mean nothing


def test_a_segment_that_is_gone_is_named(tmp_path: Path) -> None:
    segments = writer(tmp_path)
    [place] = segments.append([page(1)])
    segments.close()
    archive = DirectoryArchive(tmp_path)
    assert archive.read(place).payload == body_of_page(1)
    assert [*archive.segments()] == [(place.segment, (tmp_path / place.segment).stat().st_size)]
    archive.delete(place.segment)
    archive.delete(place.segment)
    assert [*archive.segments()] == []
    for read in (lambda: archive.read(place), lambda: archive.open(place.segment)):
        with pytest.raises(RecordGone, match=f"{place.segment} was deleted from {tmp_path}"):
            read()


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "x.warc.gz", "", "a/pages-1.warc.gz"])
def test_no_other_file_is_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="is not the name of a segment"):
        DirectoryArchive(tmp_path).read(CapturePlace(name, 0, 10))


def test_only_some_files_stay_open(tmp_path: Path) -> None:
    segments, archive = writer(tmp_path, max_bytes=1), DirectoryArchive(tmp_path)
    places = [segments.append([page(number)])[0] for number in range(FILES + 3)]
    for _ in range(2):
        for number, place in enumerate(places):
            assert archive.read(place).payload == body_of_page(number)
    assert len(archive._files) == FILES


@pytest.mark.parametrize("line", ["HTTP/2 200", "HTTP/1.0 200 Fine", "ICY 200 OK", "nonsense"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of warcio's files
def test_files_of_others_are_read(line: str) -> None:
    file = BytesIO()
    writing = WARCWriter(file, gzip=True)
    protocol, _, rest = line.partition(" ")
    headers = StatusAndHeaders(rest, [("Content-Type", "text/html"), ("X", "1")], protocol)
    writing.write_record(
        writing.create_warc_record(
            "http://a.test/", "response", payload=BytesIO(b"body"), http_headers=headers
        )
    )
    file.seek(0)
    [record] = records_of(file, "theirs.warc.gz")
    assert (record.kind, record.url, record.payload) == ("response", "http://a.test/", b"body")
    assert record.status == (0 if line == "nonsense" else 200)
    assert record.headers == (("Content-Type", "text/html"), ("X", "1"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", "does not start with WARC/"),
        (b"WARC/1.1\r\nA: b\r\n\r\n\r\n\r\n", "no Content-Length"),
        (b"WARC/1.1\r\nContent-Length: x\r\n\r\n\r\n\r\n", "no Content-Length"),
        (b"WARC/1.1\r\nContent-Length: 5\r\n\r\nab\r\n\r\n", "it has 2 of 5 bytes"),
        (b"WARC/1.1\r\nContent-Length: -4\r\n\r\n", "it has -4 of -4 bytes"),
    ],
)
def test_what_is_no_record_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(PageDamaged, match=why):
        [*records_of(BytesIO(compress((data,))), "x.warc.gz")]


@pytest.mark.parametrize("written", [zlib.compressobj, deflate.compressobj])
@pytest.mark.parametrize("read", [zlib.decompressobj, deflate.decompressobj])
def test_members_are_found_at_any_size(
    monkeypatch: pytest.MonkeyPatch, written: Any, read: Any
) -> None:
    """With either library, whichever wrote them."""
    monkeypatch.setattr(deflate, "compressobj", written)
    bodies = [random.Random(number).randbytes(number * 3000) for number in range(20)]
    file = BytesIO(b"".join(compress((body,)) for body in bodies))
    monkeypatch.setattr(deflate, "decompressobj", read)
    found = [*members(file)]
    assert [member.data for member in found] == bodies
    for member, body in zip(found, bodies, strict=True):
        part = file.getvalue()[member.offset : member.offset + member.length]
        assert decompress(part) == body
    assert found[-1].offset + found[-1].length == len(file.getvalue())
