"""Actions on a real page."""

from __future__ import annotations

from typing import Any

import pytest

from crawlframe import actions
from crawlframe.actions import (
    CaptureJson,
    Click,
    Evaluate,
    Fill,
    Goto,
    Hover,
    Mouse,
    Pdf,
    Press,
    Screenshot,
    ScrollToEnd,
    WaitFor,
)
from crawlframe.errors import ActionFailed, BadRedirect, BodyTooLarge, FetchTimeout
from crawlframe.request.request import Request
from crawlframe.spider.setting_tables import BrowserSettings

from .conftest import Browser, Site, html, paths

PAGE = """<body style="margin: 0"><p id=out></p><input id=name><button id=go>go</button>
<p id=over style="position: absolute; left: 300px; top: 300px; width: 50px; height: 50px">x</p>
<script>
const say = text => { out.textContent += text + ";" };
document.getElementById("go").onclick = () => setTimeout(() => {
  const card = document.createElement("p"); card.className = "card";
  card.textContent = document.getElementById("name").value; document.body.append(card) }, 200);
document.getElementById("name").onkeydown = e => say("key " + e.key);
over.onmouseover = () => say("over");
over.onclick = () => say("hit");
onwheel = () => say("wheel");
</script>"""


def run(browser: Browser, site: Site, *todo: Any, **more: Any) -> Any:
    return browser.fetch(Request(f"{site.url}/", actions=todo, **more))


def test_filling_clicking_and_waiting(browser: Browser, site: Site) -> None:
    html(site, "/", PAGE)
    response = run(browser, site, Fill("#name", "Ulm"), Click("#go"), WaitFor(".card"))
    assert response.css(".card::text").get() == "Ulm"


def test_keys_and_mouse(browser: Browser, site: Site) -> None:
    html(site, "/", PAGE)
    response = run(
        *(browser, site, Press("a", "#name"), Press("Enter"), Mouse(10, 10), Mouse(320, 320)),
        *(Mouse(320, 320, click=True), Mouse(10, 10), Hover("#over"), Mouse(5, 5, wheel=10)),
        WaitFor("text=wheel"),
    )
    said = response.css("#out::text").get()
    assert said == "key a;key Enter;over;hit;over;wheel;"


LONG = """<div id=list></div><script>
const grow = () => { for (let i = 0; i < 20; i++) list.insertAdjacentHTML("beforeend",
  "<p class=card style='height: 200px'>card") };
let left = 3; grow();
onscroll = () => { if (left-- > 0) setTimeout(grow, 100) };
</script>"""


def test_scrolling_to_the_end_of_a_list_that_grows(browser: Browser, site: Site) -> None:
    html(site, "/", LONG)
    assert len(run(browser, site, ScrollToEnd()).css(".card")) == 80
    assert len(run(browser, site, ScrollToEnd(times=1)).css(".card")) == 40


def test_going_to_another_page_of_the_host(browser: Browser, site: Site) -> None:
    html(site, "/", "<p>first")
    html(site, "/second", "<p>second")
    response = run(browser, site, Goto("/second"))
    assert (response.url, response.css("p::text").get()) == (f"{site.url}/second", "second")
    with pytest.raises(ActionFailed, match="another host"):
        run(browser, site, Goto("http://other.example/"))


def test_a_click_that_leads_to_another_host_is_refused(browser: Browser, site: Site) -> None:
    elsewhere = site.url.replace("127.0.0.1", "localhost")
    html(site, "/", f"<a href={elsewhere}/there>x</a>")
    with pytest.raises(BadRedirect, match="another host"):
        run(browser, site, Click("a"), WaitFor("nothing"))
    assert "/there" not in paths(site)


def test_what_scripts_return(browser: Browser, site: Site) -> None:
    html(site, "/", "<title>shop</title>")
    response = run(browser, site, Evaluate("document.title"), Evaluate("() => ({a: [1, null]})"))
    assert response.results == ["shop", {"a": [1, None]}]


def test_pictures_and_pdf(browser: Browser, site: Site) -> None:
    html(site, "/", PAGE)
    response = run(browser, site, Screenshot(), Pdf())
    assert response.screenshot.startswith(b"\xff\xd8\xff")
    assert response.pdf.startswith(b"%PDF")
    element = run(browser, site, Screenshot("#over"))
    assert 0 < len(element.screenshot) < len(response.screenshot)
    assert not element.pdf


def test_json_that_a_later_action_brings(browser: Browser, site: Site) -> None:
    site.answer("/api/1", b'{"n": 1}', headers={"Content-Type": "application/json"})
    html(site, "/", "<button onclick=\"fetch('/api/1')\">more</button>")
    response = run(browser, site, CaptureJson("/api/", count=1), Click("button"))
    assert [one.data for one in response.captured] == [{"n": 1}]


def test_json_that_the_page_asks_for(browser: Browser, site: Site) -> None:
    for number in (1, 2):
        data, kind = b'{"n": %d}' % (10**22 + number), {"Content-Type": "application/json"}
        site.answer(f"/api/{number}", data, headers=kind)
    site.answer("/api/text", b"no json")
    ask = "".join(f"fetch('/api/{what}');" for what in (1, "text", 2))
    html(site, "/", f"<script>setTimeout(() => {{ {ask} }}, 100)</script>")
    response = run(browser, site, CaptureJson("/api/", count=2))
    assert sorted(one.data["n"] for one in response.captured) == [10**22 + 1, 10**22 + 2]
    assert {one.url for one in response.captured} == {f"{site.url}/api/{n}" for n in (1, 2)}
    with pytest.raises(ActionFailed, match=r"2 of 3 answers within 1 s"):
        run(browser, site, CaptureJson("/api/", count=3, timeout=1))


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Click("#none", timeout=0.5), "action 2, click '#none'"),
        (WaitFor("#none", timeout=0.5), "action 2, wait_for '#none'"),
        (Click("p[["), "action 2, click 'p\\[\\['"),
        (Press("NoKey"), "action 2, press 'NoKey'"),
        (Evaluate("nothing.at.all"), "action 2, evaluate: .*nothing is not defined"),
        (Evaluate("(() => { throw new Error('the shop has been closed') })()"), "shop has been"),
        (Evaluate("new Promise(() => 0)", timeout=0.5), "not done within 0.5 s"),
        (actions.Screenshot("#none", timeout=0.5), "action 2, screenshot '#none'"),
    ],
)
def test_one_that_cannot_be_done_is_named(
    browser: Browser, site: Site, action: Any, words: str
) -> None:
    html(site, "/", PAGE)
    with pytest.raises(ActionFailed, match=words):
        run(browser, site, Hover("#over"), action)


def test_all_end_with_the_timeout_of_the_request(browser: Browser, site: Site) -> None:
    html(site, "/", PAGE)
    with pytest.raises(FetchTimeout):
        run(browser, site, WaitFor("#none", timeout=60), timeout=1.5)
    with pytest.raises(FetchTimeout):
        run(browser, site, Evaluate("while (1);", timeout=60), timeout=1.5)


def test_what_they_bring_is_limited(browser: Browser, site: Site) -> None:
    html(site, "/", PAGE)
    with pytest.raises(BodyTooLarge):
        run(browser, site, Evaluate("'x'.repeat(200000)"), max_body=100_000)


def test_a_picture_in_case_that_the_request_fails(browser: Browser, site: Site) -> None:
    wanted = {"browser": BrowserSettings(settle=0.0, failure_pictures=True)}
    html(site, "/", PAGE)
    response = browser.fetch(Request(f"{site.url}/", downloader="browser"), wanted)
    assert response.rendered.picture[:3] == b"\xff\xd8\xff"
    assert response.screenshot == b""
    request = Request(f"{site.url}/", actions=[Click(".none", timeout=0.2)])
    with pytest.raises(ActionFailed) as caught:
        browser.fetch(request, wanted)
    assert caught.value.picture[:3] == b"\xff\xd8\xff"
    with pytest.raises(ActionFailed) as caught:
        browser.fetch(request)
    assert caught.value.picture == b""


def test_none_of_a_page_that_computes_without_end(browser: Browser, site: Site) -> None:
    html(site, "/", "<script>setTimeout(() => { while (1); }, 100)</script>")
    request = Request(f"{site.url}/", actions=[WaitFor(".none")], timeout=1.0)
    with pytest.raises(FetchTimeout) as caught:
        browser.fetch(request, {"browser": BrowserSettings(settle=0.0, failure_pictures=True)})
    assert caught.value.picture == b""
