"""Crawled data does nothing where it is shown, checked with a real browser.

Every table gets rows full of scripts. Then the lists and rows of all models are opened, and pages
that they link to: no script of the data runs, and the browser's policy has nothing to block,
because nothing breaks out of its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import models
from django.utils import timezone

from crawlframe.frontier import Frontier
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import SpiderInfo
from crawlservice.models import LABEL_VALUE, Installation
from tests.browser.conftest import TIMEOUT_MS
from tests.servers import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page

pytestmark = pytest.mark.process

RUN = "window.ran=1"
# Each breaks out of another place: text, attributes in either quotes, scripts, JSON in a script,
# and text that the theme's own scripts would interpret.
SCRIPTS = (
    f"<script>{RUN}</script>",
    f'"><img src=x onerror="{RUN}">',
    f"'><svg onload='{RUN}'>",
    f"</script><script>{RUN}</script>",
    f'<div x-data x-init="{RUN}">',
    f"' x-data x-init='{RUN}' '",
    '<b hx-get="/admin/logout/" hx-trigger="load">',
    f"</textarea></title></pre><iframe srcdoc='<script>parent.{RUN}</script>'></iframe>",
    f"{{{{constructor.constructor('{RUN}')()}}}}${{{RUN}}}",
    f'<a href="javascript:{RUN}">',
)
URLS = (
    f"javascript:{RUN}//http://shop.example/",
    f"data:text/html,<script>parent.{RUN}</script>",
    f'http://shop.example/"onmouseover="{RUN}"autofocus onfocus="{RUN}"/',
)
ROWS = 3  # of each table
LINKED = 10  # pages that others link to, of further kinds
POLLED = 700  # milliseconds until a page has polled once

# The state a page reports, set up before any of its scripts run. Polling every few seconds is made
# ten times as frequent: up to 5 s fit into POLLED.
WATCH = """
window.problems = [];
const later = window.setTimeout;
window.setTimeout = (what, ms, ...rest) => later(what, ms >= 1000 ? ms / 10 : ms, ...rest);
addEventListener('securitypolicyviolation', e =>
  window.problems.push(`policy: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`));
for (const name of ['alert', 'confirm', 'prompt'])
  window[name] = () => { window.problems.push(name); };
"""
FIND_PROBLEMS = """() => {
  const found = [...window.problems];
  if (window.ran !== undefined) found.push('a script ran');
  for (const tag of document.querySelectorAll('*'))
    for (const {name, value} of tag.attributes) {
      if (name.startsWith('on')) found.push(`<${tag.localName} ${name}=${value}>`);
      if (['href', 'src', 'action', 'formaction', 'hx-get', 'hx-post'].includes(name)
          && /^\\s*(javascript|data|vbscript):/i.test(value))
        found.push(`<${tag.localName} ${name}=${value}>`);
    }
  for (const script of document.querySelectorAll('script:not([src])'))
    if (!/json/.test(script.type)) found.push(`inline script: ${script.textContent.slice(0, 80)}`);
  for (const frame of document.querySelectorAll('iframe'))
    if (!frame.hasAttribute('sandbox') || frame.sandbox.contains('allow-scripts'))
      found.push('a frame that may run scripts');
  for (const link of document.querySelectorAll('a[href]'))
    if (link.origin !== location.origin
        && !(link.relList.contains('noopener') && link.relList.contains('noreferrer')))
      found.push(`a link that tells where it comes from: ${link.href}`);
  return found;
}"""


def hostile(row: int) -> str:
    return SCRIPTS[row % len(SCRIPTS)] + "".join(SCRIPTS)


def value_of(field: Any, row: int) -> Any:
    """A value for a column, as hostile as the column allows."""
    if field.choices:
        return field.choices[row % len(field.choices)][0]
    if isinstance(field, models.ForeignKey):
        others = field.related_model._default_manager.order_by("pk")
        return others[row % others.count()] if others.exists() else None
    if field.name == "rows" and isinstance(field, models.JSONField):
        return [{"model": hostile(row)}]
    # Numbers, with keys that are names of this code.
    if field.name in ("refused", "statuses") and isinstance(field, models.JSONField):
        return {"200": row + 1}
    if field.name == "skipped":  # tasks, and why
        return [[row + 1, hostile(row)]]
    if field.name == "redirects":
        return [*([301, url] for url in URLS), [302, hostile(row)]]
    if field.name == "usage" and isinstance(field, models.CharField):  # a condition
        return "ai-train!=no"
    if field.name == "usage":
        return {SCRIPTS[row]: hostile(row), "said": [[SCRIPTS[row], hostile(row)]]}
    if field.name == "target" and isinstance(field, models.JSONField):
        return {"kind": "files", "url": URLS[row % len(URLS)], "format": hostile(row)}
    if field.name == "rule" and isinstance(field, models.JSONField):  # of aliases
        origin = f"http://{SCRIPTS[row]}"
        return {
            "origin": origin,
            "kind": "query",
            "names": [hostile(row)],
            "places": [hostile(row)],
        }
    if field.name in ("examples", "counterexamples") and field.model.__name__ == "AliasRule":
        return [[url, hostile(row)] for url in URLS]
    if field.name == "labels" and isinstance(field, models.JSONField):
        return {"domain": hostile(row)[:LABEL_VALUE]}
    if field.name == "reparse":
        return {"task": row + 1, "callback": hostile(row), "key": hostile(row)}
    if field.name == "fields" and field.model.__name__ == "ParsedPage":
        return {hostile(row): row + 1}
    if field.name == "examples" and field.model.__name__ == "ParsedPage":
        return [{"kind": "changed", "fields": {hostile(row): [hostile(row), SCRIPTS[row]]}}]
    if field.name == "examples" and field.model.__name__ == "Case":
        texts = {name: hostile(row) for name in ("field", "place", "old", "new")}
        return [{**texts, "url": url, "old_page": 0, "new_page": 0} for url in URLS]
    if field.name == "proposals":
        example = {"url": URLS[row % len(URLS)], "known": hostile(row), "found": SCRIPTS[row]}
        numbers = dict.fromkeys(("right", "of", "alike", "others"), row + 1)
        texts = {name: hostile(row) for name in ("expression", "code", "line")}
        return {hostile(row): [{**texts, **numbers, "examples": [example]}]}
    if field.name == "held":  # numbers
        return []
    if field.name == "headers" and field.model.__name__ == "KeptPage":
        pair = [[SCRIPTS[row], hostile(row)]]
        return {"sent": pair, "received": pair}
    if field.name == "exchange":
        headers = [[SCRIPTS[row], hostile(row)]]
        given = {"method": SCRIPTS[row], "url": URLS[row % len(URLS)], "sent": headers}
        return {**given, "status": row, "received": headers}
    if isinstance(field, models.JSONField):
        if field.default is list:
            return [hostile(row), *URLS]
        linked = [{"url": url, SCRIPTS[row]: None} for url in URLS]
        return {hostile(row): [hostile(row), *linked]}
    if field.name in ("url", "page_url", "link"):
        return (URLS[row % len(URLS)] + str(row) * field.unique)[: field.max_length]
    if isinstance(field, models.GenericIPAddressField):
        return "192.0.2.7"
    if isinstance(field, models.CharField | models.TextField):
        text = f"{row}{hostile(row)}" if field.unique else hostile(row)
        return text[: field.max_length]
    if isinstance(field, models.UUIDField):
        return uuid4()
    if isinstance(field, models.TimeField):
        return time(row)
    if isinstance(field, models.DateTimeField):
        return timezone.now()
    if isinstance(field, models.DateField):
        return timezone.now().date()
    if isinstance(field, models.BooleanField):
        return True
    if isinstance(field, models.BinaryField):
        return b"%d" % row if field.unique else b""
    return row + 1


def fill() -> None:
    """Fills all our models with rows, starting with models that others refer to."""
    # The only row of Installation is there, and no page shows it.
    todo = [m for m in apps.get_app_config("crawlservice").get_models() if m is not Installation]
    while todo:
        model = todo.pop(0)
        needed = {f.related_model for f in model._meta.fields if isinstance(f, models.ForeignKey)}
        if needed & set(todo):
            todo.append(model)
            continue
        for row in range(ROWS):
            fields = (f for f in model._meta.concrete_fields if not isinstance(f, models.AutoField))
            values = {field.name: value_of(field, row) for field in fields}
            model._default_manager.create(**values)


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.long)])
def hostile_cluster(
    request: pytest.FixtureRequest, service: Frontier, join: Callable[..., int]
) -> list[str]:
    """The paths that must be opened at least: all, or enough to see each field in each form."""
    from django.contrib.auth.models import Group, User

    from crawlservice.models import Schedule

    User.objects.create_superuser("boss", password="correct horse 9")
    User.objects.create(username=SCRIPTS[0], first_name=SCRIPTS[1], last_name=SCRIPTS[2])
    Group.objects.create(name=SCRIPTS[3])
    fill()
    spiders = [script[:100] for script in SCRIPTS[:ROWS]]
    Schedule.objects.filter(pk=1).update(spider=spiders[0])
    for number, state in enumerate(("live", "refused", "checking")):
        text = hostile(number)
        join(
            f"n{number}{SCRIPTS[number].replace(' ', '/')}"[:100], version=SCRIPTS[number][:40],
            state=state, candidate=SCRIPTS[number], problem=f"{text}\nTraceback\n{text}",
            follows=text, pulled=text, pull_problem=text, seconds=1.0, spiders=spiders,
        )  # fmt: skip
    arguments = {
        "type": "object",
        "properties": {
            SCRIPTS[1]: {"type": "string", "default": hostile(1), "description": hostile(2)},
            "kind": {"enum": [hostile(3), URLS[0]], "default": URLS[0]},
        },
        "required": [SCRIPTS[1]],
    }
    settings = SpiderSettings()
    service.spiders.publish(
        [SpiderInfo(name, hostile(0), hostile(1), arguments, settings) for name in spiders]
    )
    chosen = urlencode({"spider": spiders[1]})
    forms = [
        f"{place}?{chosen}" for place in ("/admin/submit/", "/admin/crawlservice/schedule/add/")
    ]
    return [
        "/admin/",
        *forms,
        "/admin/crawlservice/schedule/1/change/?spider=",
        *registered(all_=request.param),
    ]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page that records its problems: ``page.problems``."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.add_init_script(WATCH)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    heard: list[str] = []
    page.on("pageerror", lambda error: heard.append(f"error: {error}"))

    def dismiss(dialog: Dialog) -> None:
        heard.append("a dialog")
        dialog.dismiss()

    def hear(said: ConsoleMessage) -> None:
        if "Content Security Policy" in said.text or said.type == "error" or "Alpine" in said.text:
            heard.append(said.text)

    page.on("dialog", dismiss)
    page.on("console", hear)
    page.problems = heard  # type: ignore[attr-defined]
    yield page
    context.close()


def look(page: Page, url: str) -> tuple[list[str], list[str]]:
    """The problems of a page, and the targets of its links."""
    heard: list[str] = page.problems  # type: ignore[attr-defined]
    heard.clear()
    answer = page.goto(url)
    assert answer is not None
    page.wait_for_timeout(POLLED if page.locator("[hx-trigger*=every]").count() else 50)
    wrong = [*page.evaluate(FIND_PROBLEMS), *heard]
    if answer.status >= 400:
        wrong.append(f"answered {answer.status}")
    return wrong, page.evaluate("[...document.querySelectorAll('a[href]')].map(a => a.href)")


def kind_of(url: str) -> tuple[Any, ...]:
    """The kind of a page: of pages that differ in a number or a filter's value, a few are opened;
    and of pages that remember the filters of their list, a few of all models, because Django writes
    them the same way."""
    parts = urlsplit(url)
    words = ["#" if word.isdecimal() else word for word in parts.path.split("/")]
    names = sorted(name for name, _ in parse_qsl(parts.query))
    return tuple(words[-2:] if names == ["_changelist_filters"] else words), tuple(names)


def rows_of(model: Any, all_: bool) -> slice:
    """The rows to open: one with a URL with and one without a host, where it has a URL."""
    named = {"url", "page_url", "link"} & {field.name for field in model._meta.concrete_fields}
    return slice(0, ROWS if all_ or named else 1, 1 if all_ else 2)


def registered(all_: bool) -> Iterator[str]:
    """The lists of all models in the admin, a search in all or in those with a search of their own,
    and pages of their rows."""
    from django.contrib import admin
    from django.urls import reverse

    import crawlservice.urls  # noqa: F401 - fills the admin

    for model, shown in admin.site._registry.items():
        where = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        listing = reverse(f"{where}_changelist")
        yield listing
        searches = type(shown).get_search_results is not admin.ModelAdmin.get_search_results
        if shown.search_fields and (all_ or searches):
            yield f"{listing}?{urlencode({'q': SCRIPTS[1]})}"
        for row in model._default_manager.order_by("pk")[rows_of(model, all_)]:
            yield reverse(f"{where}_change", args=[row.pk])


def test_what_was_crawled_is_inert_on_every_page_of_the_admin(
    hostile_cluster: list[str], manage_env: dict[str, str], page: Page
) -> None:
    with served(manage_env) as (site, _):
        page.goto(f"{site}admin/")
        page.fill("[name=username]", "boss")
        page.fill("[name=password]", "correct horse 9")
        page.click("button[type=submit]")
        page.wait_for_url(f"{site}admin/")
        todo = [urljoin(site, path) for path in hostile_cluster]
        known, kinds, wrong = set(todo), {kind_of(url) for url in todo}, {}
        most = len(todo) + LINKED
        while todo and len(known) - len(todo) < most:
            url = todo.pop(0)
            problems, links = look(page, url)
            if problems:
                wrong[url] = problems
            for link in links:
                link = link.partition("#")[0]
                ours = link.startswith(f"{site}admin/") and not re.search("/(logout|export)/", link)
                simple = len(kind_of(link)[1]) < 2  # filters
                if ours and simple and link not in known and kind_of(link) not in kinds:
                    kinds.add(kind_of(link))
                    known.add(link)
                    todo.append(link)
        opened = len(known) - len(todo)
    assert not wrong, "\n".join(f"{url}: {problems[:5]}" for url, problems in wrong.items())
    assert opened >= 50
    assert f"{site}admin/crawlservice/task/1/change/" in known


NOT_INERT = {  # markup -> the problem
    f"<script>{RUN}</script>": "a script ran",
    f'<img src=x onerror="{RUN}">': "<img onerror",
    f'<a href="javascript:{RUN}">x</a>': "<a href=javascript:",
    "<script>alert(1)</script>": "alert",
    "<iframe srcdoc='x'></iframe>": "a frame that may run scripts",
    "<a href='http://shop.example/'>x</a>": "a link that tells",
    "<script>throw Error('x')</script>": "error: x",
}


def test_what_is_not_inert_is_found(page: Page) -> None:
    shown: dict[str, Any] = {}
    page.route("http://here.example/**", lambda route: route.fulfill(**shown))
    for markup, problem in NOT_INERT.items():
        body = f"<!doctype html><body>{markup}"
        shown = {"status": 200, "content_type": "text/html", "body": body}
        wrong, _ = look(page, "http://here.example/")
        assert any(one.startswith(problem) for one in wrong), (markup, wrong)

    policy = {"Content-Type": "text/html", "Content-Security-Policy": "script-src 'self'"}
    shown = {"headers": policy, "body": f"<!doctype html><body><script>{RUN}</script>"}
    wrong, _ = look(page, "http://here.example/")
    assert any(one.startswith("policy: script-src") for one in wrong), wrong
    assert not any("a script ran" in one for one in wrong)
