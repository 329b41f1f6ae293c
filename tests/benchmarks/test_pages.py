"""The site of the job of large pages."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from benchmarks.pages.names import address_of
from benchmarks.pages.site import ON_HOST, SETS, addresses, generated


def test_some_pages_are_redirects_and_some_are_missing() -> None:
    found = [address for number in range(SETS) for address in addresses(number)]
    pages = SETS * ON_HOST
    assert 0.025 < sum(one.startswith("r/") for one in found) / pages < 0.035
    assert sum(one.startswith("e/") for one in found) / pages == 0.02
    assert all(addresses(number)[0][0] in "gb" for number in range(SETS))  # a page to begin with


def test_each_page_leads_to_all_of_its_host() -> None:
    for number, page in enumerate(generated(3)):
        tree = LexborHTMLParser(page)
        links = {node.attributes["href"] for node in tree.css("a[href]")}
        assert links >= {f"/p/{one}" for one in addresses(number // ON_HOST)}
        assert len(tree.css("a[href]")) == 120


def test_hosts_have_addresses_of_their_own() -> None:
    assert address_of("h300-20.pages.test") == "127.1.1.44"
    with pytest.raises(ValueError, match="example"):
        address_of("h1-1.example")
