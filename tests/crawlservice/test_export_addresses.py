"""Addresses for exports: none that is not public, unless the network is allowed."""

from __future__ import annotations

import dataclasses
import ipaddress
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings

from crawlservice.exports.target import TargetError, address_of
from tests.crawlservice.exporting import add, drive, fill, made_task

pytestmark = pytest.mark.usefixtures("orm")
ALLOWED = tuple(ipaddress.ip_network(one) for one in ("127.0.0.0/8", "::1"))
HIDDEN = [
    "127.0.0.1", "localhost", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0",
    "100.64.0.1", "::1", "fe80::1", "fd00:ec2::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "64:ff9b::7f00:1", "2002:7f00:1::", "2130706433", "0x7f.1", "127.1", "224.0.0.1", "",
]  # fmt: skip


def files(**more: Any) -> dict[str, Any]:
    return {"kind": "files", "max_minutes": 0, **more}


TARGETS: dict[str, Callable[[str], dict[str, Any]]] = {
    "s3": lambda at: files(
        url="s3://b/x", endpoint=f"http://{at}", key="k", secret="s", region="eu"
    ),
    "sftp": lambda at: files(url=f"sftp://u@{at}/x", secret="s"),
    "postgres": lambda at: {"kind": "table", "table": "t", "url": f"postgresql://u@{at}/d"},
    "mysql": lambda at: {"kind": "table", "table": "t", "url": f"mysql://u@{at}/d"},
    "kafka": lambda at: {"kind": "kafka", "topic": "t", "servers": at},
    "second of kafka": lambda at: {"kind": "kafka", "topic": "t", "servers": f"8.8.8.8:9,{at}"},
}


@pytest.fixture
def knocked() -> Iterator[socket.socket]:
    """A server of this machine that accepts without blocking."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def connections(server: socket.socket) -> int:
    count = 0
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


@pytest.mark.parametrize("kind", TARGETS)
def test_a_server_that_is_not_public_is_not_connected_to(
    kind: str, knocked: socket.socket, settings_with: Callable[..., None]
) -> None:
    fill(made_task(), 1)
    port = knocked.getsockname()[1]
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
        export = add(TARGETS[kind](f"{host}:{port}"))
        assert "CRAWLFRAME_WEBHOOK_PRIVATE" in drive(export, steps=1).problem, host
        export.delete()
    assert connections(knocked) == 0
    if "kafka" in kind or kind == "mysql":  # they wait for an answer
        return
    settings_with(CRAWLFRAME=dataclasses.replace(settings.CRAWLFRAME, webhook_private=ALLOWED))
    knocked.close()
    row = drive(add(TARGETS[kind](f"127.0.0.1:{port}")), steps=1)
    assert row.problem
    assert "CRAWLFRAME_WEBHOOK_PRIVATE" not in row.problem


def test_a_socket_of_this_machine_is_none_of_the_internet() -> None:
    fill(made_task(), 1)
    url = "postgresql://postgres@%2Fvar%2Frun%2Fpostgresql/postgres"
    row = drive(add({"kind": "table", "table": "t", "url": url}), steps=1)
    assert "CRAWLFRAME_WEBHOOK_PRIVATE" in row.problem


def test_every_address_of_the_host_must_be_public(monkeypatch: pytest.MonkeyPatch) -> None:
    for host in HIDDEN:
        with pytest.raises(TargetError):
            address_of(host)
    assert address_of("8.8.8.8") == "8.8.8.8"
    answers = [(0, 0, 0, "", ("8.8.8.8", 0)), (0, 0, 0, "", ("10.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *rest, **more: answers)
    with pytest.raises(TargetError):
        address_of("both.example")
