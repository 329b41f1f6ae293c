"""Files: batches as files in a directory, an object store or on an SFTP server. Each has the name
of its batch and appears when it is complete, so an attempt that is repeated replaces it by the
same."""

from __future__ import annotations

import base64
import gzip
import io
import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import IO, Annotated, Any, Literal
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from django.utils.translation import gettext_lazy as _
from pydantic import Field

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlframe.files.store import sync_names
from crawlservice.exports.addresses import (
    Address,
    BadExport,
    check_path,
    directory_of,
    host_of,
    parts_of,
)
from crawlservice.exports.target import (
    BatchName,
    ExportBatch,
    FormField,
    Limits,
    Target,
    TargetError,
    TargetKind,
    Text,
    Writer,
    address_of,
    need,
)
from crawlservice.tasks.results.export import stream_chunks

SCHEMES = ("s3", "sftp")  # of addresses of files; each is also the name of the extra
MODULES = {"s3": "s3fs", "sftp": "paramiko"}
TIMEOUT = 30  # seconds for an answer
TRIES = 2  # by the client of S3
MAX_ROWS = 1_000_000  # of one file
COLUMNS = 2_000  # most columns of CSV and Parquet files


class FilesTarget(Target):
    """Files that appear only when complete. `url` is a directory below CRAWLFRAME_EXPORT_DIR of the
    nodes, `s3://bucket/prefix` or `sftp://user@host/directory`. `secret` is the secret key of S3 or
    the password of SFTP; without it, the credentials of the node's machine are used."""

    SECRETS = ("url", "secret", "private_key")

    kind: Literal["files"]
    url: Annotated[
        Text,
        Field(min_length=1),
        FormField(
            _("Address"),
            _(
                "a directory below CRAWLFRAME_EXPORT_DIR of the nodes, s3://bucket/prefix or "
                "sftp://user@host/directory"
            ),
        ),
    ]
    format: Annotated[Literal["jsonl", "csv", "parquet"], FormField(_("Format"))] = "jsonl"
    gzip: Annotated[bool, FormField(_("Compress with gzip"))] = False
    max_rows: Annotated[int, Field(ge=1, le=MAX_ROWS), FormField(_("Rows at most"))] = MAX_ROWS
    max_mb: Annotated[
        int,
        Field(ge=1, le=1024, description="MiB as JSON lines"),
        FormField(_("MiB at most")),
    ] = 64
    max_minutes: Annotated[
        int,
        Field(ge=0, le=10_080, description="age of the oldest row"),
        FormField(_("Minutes at most"), _("age of the oldest row, after which a file is written")),
    ] = 15
    key: Annotated[
        Text, Field(description="access key id of S3"), FormField(_("Access key id"))
    ] = ""
    secret: Annotated[
        str,
        Field(max_length=20_000),
        FormField(
            _("Secret"),
            _("secret key of S3 or password of SFTP"),
        ),
    ] = ""
    private_key: Annotated[
        str,
        Field(max_length=20_000, description="of SFTP, as PEM"),
        FormField(_("Private key"), _("of SFTP, as PEM"), lines=3),
    ] = ""
    host_key: Annotated[
        Text,
        Field(description="of the SFTP server; empty: known_hosts of the node"),
        FormField(_("Host key"), _("of the SFTP server; empty: the node's known_hosts")),
    ] = ""
    endpoint: Annotated[
        Text,
        Field(description="of an S3 that is not Amazon's"),
        FormField(_("Endpoint"), _("of an S3 that is not Amazon's")),
    ] = ""
    region: Annotated[Text, FormField(_("Region"))] = ""

    def check(self) -> None:
        """Raises BadExport."""
        scheme = parts_of("target.url", self.url).scheme
        if not scheme:
            check_path(self.url)
        elif scheme not in SCHEMES:
            raise BadExport("target.url", f"{scheme}:// is none of s3://, sftp:// and a directory")
        elif not host_of(self.url):
            raise BadExport("target.url", f"write {scheme}://NAME/directory")
        if self.gzip and self.format == "parquet":
            raise BadExport("target.gzip", "Parquet is compressed already; leave gzip out")
        if self.private_key and scheme != "sftp":
            raise BadExport("target.private_key", "only SFTP has one")
        if self.endpoint:
            parts_of("target.endpoint", self.endpoint)

    @property
    def destination(self) -> Address:
        return self.kind, host_of(self.url), self.endpoint, self.key, self.host_key

    def open(self, node: Settings, installation: str) -> Writer:
        return FilesWriter(self)


class FilesWriter:
    def __init__(self, target: FilesTarget) -> None:
        age = timedelta(minutes=target.max_minutes)
        columns = 0 if target.format == "jsonl" else COLUMNS
        self.limits = Limits(target.max_rows, target.max_mb << 20, age, columns)
        self._target = target
        self._store: Any = None
        self._remote = "://" in target.url

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        file = f"{name}.{self._target.format}{'.gz' if self._target.gzip else ''}"
        return self._upload(file, batch) if self._remote else self._place(file, batch)

    def test(self, name: BatchName, empty: ExportBatch) -> None:
        """Writes an empty file and deletes it."""
        file = f".{name}.test"
        if self._remote:
            self._upload(file, empty)
            self._store.remove(file)
        else:
            Path(self._place(file, empty)).unlink()

    def close(self) -> None:
        self._store = None

    def _place(self, file: str, batch: ExportBatch) -> str:
        """Renames it into place when it is on the disk."""
        check_path(self._target.url)  # this node may have another directory
        directory = directory_of(self._target.url)
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / f".{file}.{uuid4().hex}.part"
        try:
            with draft.open("wb") as out:
                self._write(out, batch)
                os.fsync(out.fileno())
            faults.at("export.write.before")
            draft.replace(directory / file)
            sync_names(directory)
            faults.at("export.write.after")
        finally:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
        for left in directory.glob(f".{file}.*.part"):  # of an attempt that was killed
            with suppress(OSError):
                left.unlink()
        return str(directory / file)

    def _upload(self, file: str, batch: ExportBatch) -> str:
        if self._store is None:
            self._store = open_store(self._target)
        with tempfile.NamedTemporaryFile(suffix=".part") as out:
            self._write(out, batch)
            out.flush()
            faults.at("export.write.before")
            place: str = self._store.put(Path(out.name), file)
            faults.at("export.write.after")
        return place

    def _write(self, out: IO[bytes], batch: ExportBatch) -> None:
        pieces = stream_chunks(batch.chunks, f".{self._target.format}", batch.kinds)
        with _compressed(out) if self._target.gzip else _plain(out) as sink:
            for piece in pieces:
                sink(piece)


Sink = Callable[[bytes], object]


@contextmanager
def _plain(out: IO[bytes]) -> Iterator[Sink]:
    yield out.write


@contextmanager
def _compressed(out: IO[bytes]) -> Iterator[Sink]:
    # Without a name and a time, so that the same rows make the same file.
    with gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
        yield packed.write


TARGET = TargetKind("files", _("files: directory, S3, SFTP"), FilesTarget)


class ObjectStore:
    """A directory of a store. An object of S3 appears when its upload is complete; a file
    of SFTP gets its name then."""

    def __init__(self, system: Any, directory: str, shown: str, *, renames: bool) -> None:
        self._system, self._directory, self._shown = system, directory, shown
        self._renames = renames

    def put(self, local: Path, name: str) -> str:
        """Stores a file, in place of a file of that name. Returns its address. Raises the errors
        of the libraries."""
        place = f"{self._directory}/{name}"
        if not self._renames:
            self._system.put_file(str(local), place)
            return f"{self._shown}/{name}"
        self._system.makedirs(self._directory, exist_ok=True)
        draft = f"{self._directory}/.{name}.{uuid4().hex}.part"
        try:
            self._system.put_file(str(local), draft)
            self._system.ftp.posix_rename(draft, place)
        except BaseException:
            with suppress(Exception):
                self._system.ftp.remove(draft)
            raise
        with suppress(OSError):
            for left in self._system.ftp.listdir(self._directory):  # of attempts that were killed
                if left.startswith(f".{name}.") and left.endswith(".part"):
                    self._system.ftp.remove(f"{self._directory}/{left}")
        return f"{self._shown}/{name}"

    def remove(self, name: str) -> None:
        """Deletes a file. Raises the errors of the libraries."""
        self._system.rm_file(f"{self._directory}/{name}")


def open_store(target: FilesTarget) -> ObjectStore:
    """Opens the store of a target. Raises TargetError, and the errors of the libraries."""
    parts = urlsplit(target.url)
    scheme = parts.scheme
    need(MODULES[scheme], scheme)
    shown = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
    if scheme == "sftp":
        return ObjectStore(_sftp(target), parts.path.rstrip("/") or "/", shown, renames=True)
    if target.endpoint:
        address_of(urlsplit(target.endpoint).hostname)
    place = f"{parts.netloc}{parts.path}".rstrip("/")
    return ObjectStore(_s3(target), place, shown, renames=False)


def _s3(target: FilesTarget) -> Any:
    import s3fs  # large

    place = {"endpoint_url": target.endpoint or None, "region_name": target.region or None}
    return s3fs.S3FileSystem(
        key=target.key or None,
        secret=target.secret or None,
        client_kwargs={name: value for name, value in place.items() if value},
        config_kwargs={
            "connect_timeout": TIMEOUT,
            "read_timeout": TIMEOUT,
            "retries": {"max_attempts": TRIES},
            # The name may have another address by then.
            **({"connector_args": {"socket_factory": _checked}} if target.endpoint else {}),
        },
        skip_instance_cache=True,
        use_listings_cache=False,
    )


def _checked(info: Any) -> socket.socket:
    address_of(info[4][0])
    return socket.socket(*info[:3])


def _sftp(target: FilesTarget) -> Any:
    """fsspec's own connects to whatever answers; this one verifies the server's key."""
    import paramiko
    from fsspec.implementations.sftp import SFTPFileSystem

    parts = urlsplit(target.url)
    host, port = str(parts.hostname), parts.port or 22

    class Verified(SFTPFileSystem):
        def _connect(self) -> None:
            client = paramiko.SSHClient()
            client.set_missing_host_key_policy(paramiko.RejectPolicy())
            if target.host_key:
                name = host if port == 22 else f"[{host}]:{port}"
                key = _key_of(target.host_key)
                client.get_host_keys().add(name, key.get_name(), key)
            else:
                client.load_system_host_keys()
            line = socket.create_connection((address_of(host), port), TIMEOUT)
            client.connect(host, port, sock=line, timeout=TIMEOUT, **self.ssh_kwargs)
            self.client, self.ftp = client, client.open_sftp()
            if (channel := self.ftp.get_channel()) is not None:
                channel.settimeout(TIMEOUT)

    login: dict[str, Any] = {
        "username": unquote(parts.username) if parts.username else None,
        "password": target.secret or (unquote(parts.password) if parts.password else None),
        "banner_timeout": TIMEOUT,
        "auth_timeout": TIMEOUT,
    }
    if target.private_key:
        login |= {"pkey": _private_key(target.private_key), "look_for_keys": False}
    return Verified(host, skip_instance_cache=True, **login)


def _private_key(text: str) -> Any:
    import paramiko

    for kind in (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey):
        with suppress(paramiko.SSHException, ValueError):
            return kind.from_private_key(io.StringIO(text))
    raise TargetError("target.private_key is no Ed25519, ECDSA or RSA key without a passphrase")


def _key_of(text: str) -> Any:
    """``ssh-ed25519 AAAA…``, as a line of known_hosts has it."""
    import paramiko

    words = text.split()
    try:
        kind, encoded = words[-2:] if words[-1].startswith("AAAA") else words[:2]
        return paramiko.PKey.from_type_string(kind, base64.b64decode(encoded))
    except (ValueError, IndexError, paramiko.SSHException) as error:
        raise TargetError(f"target.host_key is no key such as ssh-ed25519 AAAA…: {error}") from None
