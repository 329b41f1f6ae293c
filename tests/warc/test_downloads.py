"""Downloads: WARC, and WACZ checked against its standard."""

from __future__ import annotations

import gzip
import hashlib
import json
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from crawlframe.warc import Original, Redirection, downloads, wacz_of, warc_of
from crawlframe.warc.downloads import CHUNK, surt
from crawlframe.warc.records import date_of
from tests.warc.captures import AT, judged, page

CAPTURES = [
    page(1, b"<p>one", redirects=(Redirection("http://shop.test/", 301, "http://shop.test/1"),)),
    page(2, b"<p>one", original=Original(page(1).url, date_of(AT))),
    page(3, b"<p>DOM", rendered=True),
    page(4, b"gone", status=404),
    page(5, b"{}", headers=(("content-type", "application/json"),)),
]


def opened(data: bytes) -> zipfile.ZipFile:
    archive = zipfile.ZipFile(BytesIO(data))
    assert archive.testzip() is None
    return archive


def test_a_warc_has_all_records(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(b"".join(warc_of(CAPTURES, path.name, "test/1")))
    records = judged(path)
    assert [record.rec_type for record in records] == [
        "warcinfo", "response", "request", "response", "revisit", "request", "resource",
        "request", "metadata", *["response", "request"] * 2,
    ]  # fmt: skip
    assert records[0].rec_headers.get_header("WARC-Filename") == "x.warc.gz"
    assert all(record.rec_headers.get_header("WARC-Block-Digest") for record in records)


def test_a_wacz_is_as_its_standard_says(tmp_path: Path) -> None:
    archive = opened(b"".join(wacz_of(CAPTURES, "shop-1", "test/1")))
    names = archive.namelist()
    assert names == [
        "archive/data.warc.gz", "indexes/index.cdx.gz", "indexes/index.idx", "pages/pages.jsonl",
        "datapackage.json", "datapackage-digest.json",
    ]  # fmt: skip
    assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
    package = archive.read("datapackage.json")
    described = json.loads(package)
    assert (described["wacz_version"], described["title"]) == ("1.1.1", "shop-1")
    assert [file["path"] for file in described["resources"]] == names[:4]
    for file in described["resources"]:
        data = archive.read(file["path"])
        assert file["bytes"] == len(data)
        assert file["hash"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert json.loads(archive.read("datapackage-digest.json")) == {
        "path": "datapackage.json",
        "hash": f"sha256:{hashlib.sha256(package).hexdigest()}",
    }
    head, *pages = map(json.loads, archive.read("pages/pages.jsonl").splitlines())
    assert head["format"] == "json-pages-1.0"
    assert [one["url"] for one in pages] == [f"http://shop.test/{n}?q=1" for n in (1, 2, 3)]


def test_the_index_names_each_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when it is sorted on disk, in several blocks."""
    monkeypatch.setattr(downloads, "RUN", 4)
    monkeypatch.setattr(downloads, "BLOCK", 3)
    archive = opened(b"".join(wacz_of(CAPTURES, "shop-1", "test/1")))
    warc = archive.read("archive/data.warc.gz")
    index = archive.read("indexes/index.cdx.gz")
    head, *blocks = archive.read("indexes/index.idx").decode().splitlines()
    assert head == '!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'
    lines: list[str] = []
    for block in blocks:
        key, at, place = block.split(" ", 2)
        where = json.loads(place)
        data = index[where["offset"] : where["offset"] + where["length"]]
        assert where["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
        some = gzip.decompress(data).decode().splitlines()
        assert some[0].startswith(f"{key} {at} ")
        lines += some
    assert len(blocks) == 2
    assert lines == sorted(lines)
    assert gzip.decompress(index).decode().splitlines() == lines
    found = {}
    for line in lines:
        key, at, entry = line.split(" ", 2)
        fields = json.loads(entry)
        assert (key, at) == (surt(fields["url"]), "20270115080000")
        offset, length = int(fields["offset"]), int(fields["length"])
        record = gzip.decompress(warc[offset : offset + length])
        assert f"WARC-Target-URI: {fields['url']}\r\n".encode() in record
        assert f"WARC-Payload-Digest: {fields['digest']}\r\n".encode() in record
        found[fields["url"]] = fields["mime"], fields["status"]
    assert found == {
        "http://shop.test/": ("", "301"),
        "http://shop.test/1?q=1": ("text/html", "200"),
        "http://shop.test/2?q=1": ("warc/revisit", "200"),
        "http://shop.test/3?q=1": ("text/html", "200"),
        "http://shop.test/4?q=1": ("text/html", "404"),
        "http://shop.test/5?q=1": ("application/json", "200"),
    }


@pytest.mark.parametrize("kind", [warc_of, wacz_of])
def test_downloads_are_streamed(kind: object) -> None:
    """The first part does not wait for the rest."""
    made = 0

    def captures() -> object:
        nonlocal made
        for number in range(8):
            made += 1
            yield page(number, (f"{number}" * 3).encode() + _noise(number))

    chunks = []
    for chunk in kind(captures(), "x", "test/1"):  # type: ignore[operator]
        chunks.append((made, len(chunk)))
    assert chunks[0] == (1, chunks[0][1])
    assert len(chunks) >= 8
    assert max(size for _, size in chunks) < 4 * CHUNK


def _noise(seed: int) -> bytes:
    import random

    return random.Random(seed).randbytes(CHUNK)


def test_nothing_is_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "x.warc.gz"
    path.write_bytes(b"".join(warc_of([], path.name, "test/1")))
    assert len(judged(path)) == 1
    archive = opened(b"".join(wacz_of([], "x", "test/1")))
    assert archive.read("indexes/index.cdx.gz") == b""


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://www.Example.com/A/B?b=2&a=1", "com,example)/a/b?a=1&b=2"),
        ("http://127.0.0.1:8000/page/1", "1,0,0,127:8000)/page/1"),
        ("https://example.com:443/", "com,example)/"),
        ("http://www2.a.co.uk/x//y/?", "uk,co,a)/x/y"),
        ("http://[::1]:8000/x", "::1:8000)/x"),
        ("http://a.test/%C3%A9?q=%20", "test,a)/%c3%a9?q=%20"),
    ],
)
def test_keys_are_those_of_py_wacz(url: str, key: str) -> None:
    assert surt(url) == key


def test_a_failure_of_the_source_ends_it() -> None:
    def captures() -> object:
        yield page(1)
        raise KeyError("x")

    for kind in (warc_of, wacz_of):
        with pytest.raises(KeyError):
            b"".join(kind(captures(), "x", "test/1"))  # type: ignore[arg-type]
    assert downloads.FORMATS == {".warc.gz": "application/warc", ".wacz": "application/wacz"}
