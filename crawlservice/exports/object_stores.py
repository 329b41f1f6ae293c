"""Object stores: S3 and SFTP, through fsspec."""

from __future__ import annotations

import base64
import io
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from crawlservice.exports.writer import TargetError, address_of, need

SCHEMES = ("s3", "sftp")  # of addresses of files; each is also the name of the extra
MODULES = {"s3": "s3fs", "sftp": "paramiko"}
TIMEOUT = 30  # seconds for an answer
TRIES = 2  # by the client of S3


class StoreTarget(Protocol):
    """An address, and what a store asks for."""

    url: str
    key: str
    secret: str
    private_key: str
    host_key: str
    endpoint: str
    region: str


class ObjectStore:
    """A directory of a store. An object of S3 appears when its upload is complete; a file
    of SFTP gets its name then."""

    def __init__(self, system: Any, directory: str, shown: str, *, renames: bool) -> None:
        self._system, self._directory, self._shown = system, directory, shown
        self._renames = renames

    def put(self, local: Path, name: str) -> str:
        """Stores a file, in place of one of that name. Returns its address. Raises what the
        libraries raise."""
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
        """Raises what the libraries raise."""
        self._system.rm_file(f"{self._directory}/{name}")


def open_store(target: StoreTarget) -> ObjectStore:
    """Raises TargetError, and what the libraries raise."""
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


def _s3(target: StoreTarget) -> Any:
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


def _sftp(target: StoreTarget) -> Any:
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
