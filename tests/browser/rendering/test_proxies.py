"""The browser through the proxy of a request: all of a page goes there, and its failures have
names."""

from __future__ import annotations

import pytest

from crawlframe.errors import PrivateAddress, ProxyAuth
from crawlframe.proxies.proxy import fixed_proxy
from tests.proxy_server import Start, of_pool, start

from .conftest import Browser, Site, html

__all__ = ("start",)

LOGIN = "me:p:a ss@word"


@pytest.mark.parametrize("login", ["", LOGIN])
@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_the_page_and_its_parts_go_through_the_proxy(
    browser: Browser, site: Site, start: Start, scheme: str, login: str
) -> None:
    html(site, "/", "<script src=/a.js></script>")
    script = b"document.title = 'from a part'"
    site.answer("/a.js", script, headers={"Content-Type": "text/javascript"})
    proxy = start(scheme, login)
    response = browser.fetch(f"{site.url}/", proxy=of_pool(proxy))
    assert response.css("title::text").get() == "from a part"
    assert proxy.connections >= 1
    assert all(not name.lower().startswith("proxy-") for name, _ in site.seen[0].headers)


def test_two_proxies_share_no_cookies(browser: Browser, site: Site, start: Start) -> None:
    html(site, "/", "<script>document.title = document.cookie; document.cookie = 'a=1'</script>")
    first, second = start(), start()
    browser.fetch(f"{site.url}/", proxy=of_pool(first))
    assert browser.fetch(f"{site.url}/", proxy=of_pool(first)).css("title::text").get() == "a=1"
    assert not browser.fetch(f"{site.url}/", proxy=of_pool(second)).css("title::text").get()


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_wrong_credentials(browser: Browser, site: Site, start: Start, scheme: str) -> None:
    html(site, "/", "page")
    with pytest.raises(ProxyAuth) as caught:
        browser.fetch(f"{site.url}/", proxy=of_pool(start(scheme, LOGIN), password="wrong-one"))
    assert "wrong-one" not in str(caught.value)


def test_a_spiders_own_proxy_must_be_public(
    browser: Browser, site: Site, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host of these tests allows loopback, so the proxy is in another private network."""
    with pytest.raises(PrivateAddress, match="the proxy"):
        browser.fetch(f"{site.url}/", proxy=fixed_proxy("http://10.1.2.3:8080"))
