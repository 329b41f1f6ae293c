"""The store in S3, against a server that speaks as much of it as is needed."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crawlframe.base.storage_url import check_place
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError, StoreError
from crawlframe.files.s3_client import PART
from crawlframe.files.store import DirectoryStore, S3Store, open_store
from tests.files.s3_server import S3Server

pytest.importorskip("s3fs")
BODY = b"content"


@pytest.fixture
def store(s3: S3Server, tmp_path: Path) -> S3Store:
    opened = open_store(Settings(var_dir=tmp_path, node="n", files="s3://bucket/kept/"))
    assert isinstance(opened, S3Store)
    return opened


def put(store: S3Store, body: bytes = BODY) -> str:
    store.spool.mkdir(parents=True, exist_ok=True)
    local = store.spool / "x.part"
    local.write_bytes(body)
    sha256 = hashlib.sha256(body).hexdigest()
    assert store.put(local, sha256) == f"sha256/{sha256[:2]}/{sha256[2:4]}/{sha256}"
    assert not local.exists()
    return sha256


def test_files_are_objects(store: S3Store, s3: S3Server, tmp_path: Path) -> None:
    sha256 = put(store)
    place = f"bucket/kept/sha256/{sha256[:2]}/{sha256[2:4]}/{sha256}"
    assert s3.objects == {place: BODY}
    assert store.spool == tmp_path / "files/spool/node-n"
    assert store.address == "s3://bucket/kept"
    assert put(store) == sha256  # the same content again
    assert store.size(sha256) == len(BODY)
    with store.open(sha256) as file:
        assert file.read() == BODY
    at = datetime(2026, 11, 1, 10, tzinfo=UTC).timestamp()
    assert [*store.files()] == [(sha256, len(BODY), at)]
    store.delete(sha256)
    store.delete(sha256)
    assert (store.size(sha256), s3.objects) == (None, {})
    with pytest.raises(StoreError, match="s3://bucket/kept"):
        store.open(sha256).read()


def test_a_large_file_is_sent_in_parts(store: S3Store, s3: S3Server) -> None:
    body = os.urandom(2 * PART + 5)
    sha256 = put(store, body)
    assert (s3.uploads, len(s3.parts)) == (1, 3)
    assert store.size(sha256) == len(body)
    assert body in s3.objects.values()


def test_a_server_that_fails_is_named(
    store: S3Store, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawlframe.files.s3_client.TRIES", 1)
    sha256 = put(store)
    s3.broken = True
    with pytest.raises(StoreError, match="the file store s3://bucket/kept"):
        store.size(sha256)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("gs://bucket", "must be a directory or s3://"),
        ("s3://", "must be s3://bucket/path"),
        ("s3://key:secret@bucket/x", "credentials come from the environment"),
    ],
)
def test_places_that_are_refused(place: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        check_place("CRAWLFRAME_FILES", place)
    assert "secret@" not in str(caught.value)
    with pytest.raises(ConfigError):
        Settings.from_env({"CRAWLFRAME_FILES": place})


def test_the_extra_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawlframe.base.storage_url.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="needs the extra s3"):
        check_place("CRAWLFRAME_FILES", "s3://bucket")
    settings = replace(Settings(), files="kept")
    assert isinstance(open_store(settings), DirectoryStore)
