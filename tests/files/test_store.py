"""The directory store: by content, whole, and once."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from crawlframe.errors import StoreError
from crawlframe.files.saved_file import SavedFile
from crawlframe.files.store import DirectoryStore, StoreRoom, path_of

BODY = b"content"
SHA256 = hashlib.sha256(BODY).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(tmp_path / "files", "node/1")


def local(store: DirectoryStore, body: bytes = BODY) -> Path:
    store.spool.mkdir(parents=True, exist_ok=True)
    path = store.spool / "x.part"
    path.write_bytes(body)
    return path


def test_equal_files_are_kept_once(store: DirectoryStore, tmp_path: Path) -> None:
    path = store.put(local(store), SHA256)
    assert path == f"sha256/{SHA256[:2]}/{SHA256[2:4]}/{SHA256}"
    place = tmp_path / "files" / path
    os.utime(place, (1000, 1000))
    before = place.stat().st_ino
    assert store.put(local(store), SHA256) == path
    assert place.stat().st_ino == before
    assert place.stat().st_mtime > 1000  # as if it had just been saved
    assert [*store.spool.iterdir()] == []
    assert [(one.sha256, one.size) for one in store.files()] == [(SHA256, 7)]
    with store.open(SHA256) as file:
        assert file.read() == BODY


def test_a_damaged_file_is_replaced(store: DirectoryStore, tmp_path: Path) -> None:
    place = tmp_path / "files" / store.put(local(store), SHA256)
    place.write_bytes(b"cut")
    store.put(local(store), SHA256)
    assert place.read_bytes() == BODY


def test_a_deleted_file_is_gone(store: DirectoryStore) -> None:
    store.put(local(store), SHA256)
    store.delete(SHA256)
    store.delete(SHA256)
    assert store.size(SHA256) is None
    assert [*store.files()] == []
    with pytest.raises(StoreError, match="was deleted from"):
        store.open(SHA256)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", SHA256.upper(), f"{SHA256}/.."])
def test_only_hashes_are_names(store: DirectoryStore, name: str) -> None:
    with pytest.raises(StoreError, match="is not a SHA-256"):
        store.open(name)


def test_nodes_have_spools_of_their_own(tmp_path: Path) -> None:
    spools = {DirectoryStore(tmp_path, node).spool for node in ("a", "b", "../c")}
    assert len(spools) == 3
    assert {spool.parent for spool in spools} == {tmp_path / "spool"}


def test_a_file_can_be_opened_only_where_it_was_saved(store: DirectoryStore) -> None:
    file = SavedFile("http://a/", store.put(local(store), SHA256), SHA256, 7, "text/plain")
    with pytest.raises(StoreError, match=r"only response\.file can"):
        file.open()
    with file.within(StoreRoom(store)).open() as opened:
        assert opened.read() == BODY
    assert path_of(SHA256) == file.path
