"""Public suffixes: the domain that was registered."""

from __future__ import annotations

import pytest

from crawlframe.base.public_suffixes import _registered_domain, registered_domain, suffix_rules


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("www.shop.co.uk", "shop.co.uk"),
        ("a.b.example.com", "example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "localhost"),
        ("[::1]", "::1"),
    ],
)
def test_registered_domains(host: str, domain: str) -> None:
    assert registered_domain(host) == domain


def test_names_that_are_too_long_are_not_kept() -> None:
    name = "a." * 130 + "example"
    assert registered_domain(name) == name
    kept = _registered_domain.cache_info().currsize
    registered_domain("b" + name)
    assert _registered_domain.cache_info().currsize == kept


def test_rules_by_the_ends_of_names() -> None:
    rules = suffix_rules()
    assert (rules["co.uk"], rules["ck"], rules["www.ck"]) == (0, 1, -1)
    assert rules["\u516c\u53f8.cn"] == rules["xn--55qx5d.cn"] == 0
    assert "com" not in rules  # as all ends of one label
