"""The spider names the proxies of a page."""

from __future__ import annotations

import sys
from pathlib import Path

from crawlframe.testing import make_response, run

sys.path.insert(0, str(Path(__file__).parents[1]))

PAGE = """<table><tr><th>host<th>port<th>country<th>kind</tr>
<tr><td>192.0.2.1</td><td>3128</td><td>de</td><td>HTTP</td></tr>
<tr><td>192.0.2.2</td><td>1080</td><td>fr</td><td>SOCKS5</td></tr>
<tr><td>192.0.2.3</td><td>port</td><td>fr</td><td>HTTP</td></tr></table>
<a rel="next" href="/2">more</a>"""


def test_it_names_the_proxies_of_a_page_and_follows_the_next() -> None:
    from proxy_list import ProxyList

    result = run(ProxyList, make_response("https://proxies.example/1", html=PAGE))
    found = [(proxy.url, proxy.country) for proxy in result.proxies]
    assert found == [("http://192.0.2.1:3128", "DE"), ("socks5://192.0.2.2:1080", "FR")]
    assert result.stats == {"wrong rows": 1}
    assert [request.url for request in result.requests] == ["https://proxies.example/2"]
    assert result.items == []
