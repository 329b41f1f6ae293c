from __future__ import annotations

import ipaddress

import pytest

from crawlframe.fetch.names.address_guard import AddressGuard


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "172.31.255.255",
        "192.168.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::101:101",
        "64:ff9b:1:101:1:100::",
        "::7f00:1",
        "::101:101",
        "::ffff:0:127.0.0.1",
        "::ffff:0:1.1.1.1",
        "::ffff:127.0.0.1",
        "2002:7f00:1::",
        "2002:0a00:0001::1",
        "2001:db8::1",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fe80::1%eth0",
        "fec0::1",
        "ff02::1",
        "",
        "localhost",
    ],
)
def test_private_addresses_are_refused(address: str) -> None:
    assert not AddressGuard().allows(address)


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.215.14", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1",
     "64:ff9b::101:101"],
)  # fmt: skip
def test_let_through(address: str) -> None:
    assert AddressGuard().allows(address)


def test_allowed_networks() -> None:
    guard = AddressGuard([ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd12::/16")])
    assert guard.allows("10.9.9.9")
    assert guard.allows("::ffff:10.9.9.9")
    assert guard.allows("fd12::5")
    assert not guard.allows("192.168.1.1")
    assert not guard.allows("fd13::5")
    assert not guard.allows("::10.9.9.9")
    assert AddressGuard([ipaddress.ip_network("64:ff9b:1::/48")]).allows("64:ff9b:1::101:101")
