"""Contact: the default User-Agent, and a node's warning when it says too little."""

from __future__ import annotations

import pytest

from crawlframe import __version__
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.identity.identity import Introduction, default_user_agent, is_public

PAGE = "https://www.example.com/crawler"


def settings(**variables: str) -> Settings:
    return Settings.from_env({f"CRAWLFRAME_{name}": value for name, value in variables.items()})


@pytest.mark.parametrize("contact", [PAGE, "http://bots.example.com", "crawler@example.com"])
def test_the_contact_is_part_of_the_user_agent(contact: str) -> None:
    assert settings(CONTACT=contact).user_agent == f"crawlframe/{__version__} (+{contact})"


def test_without_a_contact_there_is_none() -> None:
    assert settings().user_agent == f"crawlframe/{__version__}"
    assert settings(CONTACT="").user_agent == f"crawlframe/{__version__}"


def test_a_user_agent_of_the_teams_own_stays() -> None:
    assert settings(CONTACT=PAGE, USER_AGENT="Ours/1").user_agent == "Ours/1"
    assert settings(USER_AGENT="\xdcnsere/1 \u4f60").user_agent == "\xdcnsere/1 \u4f60"


@pytest.mark.parametrize("agent", ["a\r\nX: y", "a\nb", "a\0b", "a\udcfc"])
def test_a_user_agent_that_cannot_be_sent_is_refused(agent: str) -> None:
    with pytest.raises(ConfigError, match=r"CRAWLFRAME_USER_AGENT=.*has a line break or another"):
        settings(USER_AGENT=agent)


@pytest.mark.parametrize(
    "wrong",
    [
        "me", "www.example.com", "ftp://example.com/", "https://", "https://localhost/",
        "https://example.com/) evil", "https://example.com/(a)", "a@b", "a b@example.com",
        "https://example.com/\r\nX: 1", "https://ann:x@example.com/", "https://[", "mailto:a@b.org",
        "https://example.com/" + 200 * "a",
    ],
)  # fmt: skip
def test_what_is_no_contact_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"CRAWLFRAME_CONTACT=.*a page about this crawler"):
        settings(CONTACT=wrong)


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("www.shop.org", True), ("www.shop.org:8080", True), ("8.8.8.8", True),
        ("[2606:4700::1111]:443", True), ("shop.org.", True),
        ("localhost", False), ("localhost:8000", False), ("127.0.0.1:8000", False),
        ("10.0.0.1", False), ("[::1]:80", False), ("shop.test", False), ("db.internal", False),
        ("intranet", False), ("start", False), ("a.b.example", False),
    ],
)  # fmt: skip
def test_which_hosts_are_public(host: str, public: bool) -> None:
    assert is_public(host) is public


def test_the_first_public_host_is_warned_of_once() -> None:
    nobody = Introduction(default_user_agent(""))
    assert nobody.missing_for(["127.0.0.1:80", "localhost"]) == ""
    assert "CRAWLFRAME_CONTACT" in nobody.missing_for(["localhost", "www.shop.org"])
    assert nobody.missing_for(["www.shop.org"]) == ""


@pytest.mark.parametrize("agent", [default_user_agent(PAGE), "Ours/1"])
def test_an_agent_with_a_contact_makes_no_warning(agent: str) -> None:
    assert Introduction(agent).missing_for(["www.shop.org"]) == ""
