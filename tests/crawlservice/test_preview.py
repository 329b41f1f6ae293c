"""Two revisions of a real repository on kept pages: what differs is shown, nothing is stored."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from crawlframe.errors import ArgumentError
from crawlframe.pages.stored import Packer, digest_of
from crawlframe.recorded.folder import Exchange, Head, RecordedPage, Recording
from crawlframe.request.request import Request
from crawlservice.cli.preview_report import as_json, markdown
from crawlservice.models import Item, KeptPage, Page, PageBody, Task
from crawlservice.pages import to_try
from crawlservice.pages.to_try import pages_to_try, spiders_with_pages, tried_spiders
from crawlservice.preview.preview import NothingToPreview, PreviewOrder
from crawlservice.preview.result import Preview
from tests.repository import Repository

pytestmark = [pytest.mark.forks, pytest.mark.usefixtures("orm"), pytest.mark.databases("sqlite")]

PACKAGE = "previewed_spiders"
SPIDER = """
from crawlframe import Spider
from {package}.base import text

class {kind}(Spider):
    name = "{name}"
    allowed_domains = ["{name}.example"]
    settings = {{"robots": False}}

    def parse(self, response):
        yield {{
            "title": text(response, "h1"),
            "price": text(response, ".price"),
            "note": text(response, ".note"),
        }}
        yield from response.follow_all(css="a", callback="parse")
"""
BASE = """
def text(response, css):
    return response.css(f"{css}::text").get()
"""
PAGE = "<h1>House {n}</h1><b class=price>{n}</b><a href=/n{n}>next</a><a href=/m{n}>more</a>"
SPIDERS = ("alpha", "beta", "gamma")
PAGES = 6


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The command takes signals."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def keep(spider: str, number: int, body: str, **more: Any) -> KeptPage:
    """A page that a finished run of the spider has kept."""
    url = f"https://{spider}.example/houses/{number}"
    data = body.encode()
    packed = Packer().pack(data)
    stored, _ = PageBody.objects.get_or_create(
        digest=digest_of(data), defaults={"size": len(data), "data": packed, "stored": len(packed)}
    )
    task, _ = Task.objects.get_or_create(
        spider=spider,
        outcome=more.pop("outcome", "finished"),
        defaults={"seeds": b"", "state": "finished"},
    )
    return KeptPage.objects.create(
        rid=uuid4(),
        task=task,
        url=url,
        host=f"{spider}.example",
        method="GET",
        status=200,
        headers={"received": [["Content-Type", "text/html"]]},
        record=Request(url, more.pop("callback", None)).encode(),
        body=stored,
        **more,
    )


class Project(Repository):
    """A repository with three spiders and one module that they share."""

    def spider(self, name: str, old: str = "", new: str = "") -> dict[str, str | None]:
        """The file of a spider, with a part of its text replaced."""
        text = SPIDER.format(package=PACKAGE, kind=name.capitalize(), name=name)
        assert old in text
        return {f"{PACKAGE}/{name}.py": text.replace(old, new) if old else text}

    def preview(self, revision: str = "", against: str = "HEAD", **more: Any) -> Preview:
        return PreviewOrder(self.path, settings.CRAWLFRAME, revision, against, **more).run()

    def branch(self, files: dict[str, str | None]) -> str:
        """A branch with changed files; the work tree is that of main again."""
        self.git("switch", "--quiet", "--create", "change")
        self.commit(files, push=False)
        self.git("switch", "--quiet", "main")
        return "change"


@pytest.fixture
def project(
    tmp_path: Path, settings_with: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> Project:
    path = tmp_path / "project"
    path.mkdir()
    made = Project(path)
    made.git("init", "--quiet", "--initial-branch=main")
    files: dict[str, str | None] = {f"{PACKAGE}/__init__.py": "", f"{PACKAGE}/base.py": BASE}
    for name in SPIDERS:
        files |= made.spider(name)
        for number in range(PAGES):
            keep(name, number, PAGE.format(n=number))
    files["manage.py"] = "# crawlservice"
    made.commit(files, push=False)
    monkeypatch.syspath_prepend(path)
    monkeypatch.chdir(path)
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, spiders=PACKAGE))
    return made


def parts(preview: Preview) -> dict[str, dict[str, tuple[int, int, int, int]]]:
    """Unchanged, gained, lost and changed values of the parts that differ, by spider."""
    return {
        one.spider: {
            part: (tally.unchanged, tally.gained, tally.lost, tally.changed)
            for part, tally in one.differing.items()
        }
        for one in preview.spiders
        if one.differing
    }


def told(preview: Preview) -> list[str]:
    return [str(one) for one in preview.regressions]


def test_an_unchanged_branch_has_no_differences(project: Project) -> None:
    rows = [model.objects.count() for model in (Item, KeptPage, Page, PageBody, Task)]
    found = project.preview(project.branch({"README": "words"}), unchanged=True)
    assert (found.pages, parts(found), told(found)) == (3 * PAGES, {}, [])
    alpha = found.spiders[0].parts
    assert (alpha["items.price"].unchanged, alpha["requests"].unchanged) == (PAGES, 2 * PAGES)
    assert [m.objects.count() for m in (Item, KeptPage, Page, PageBody, Task)] == rows
    # The code of no spider differs.
    found = project.preview("change")
    assert (found.pages, found.same) == (0, 3)


def test_only_spiders_whose_code_differs_are_tried(project: Project) -> None:
    project.write(project.spider("beta", "h1", "h2"))
    found = project.preview()
    assert ([one.spider for one in found.spiders], found.same) == (["beta"], 2)
    project.write({f"{PACKAGE}/base.py": BASE + "\n# more\n"})
    assert len(project.preview().spiders) == 3
    assert [one.spider for one in project.preview(spiders=["b*"]).spiders] == ["beta"]


@pytest.mark.parametrize(
    ("old", "new", "differences", "errors"),
    [
        ('".price"', '".gone"', {"items.price": (0, 0, PAGES, 0)}, ["beta.price: lost 6 of 6"]),
        (
            'text(response, "h1")',
            'text(response, "h1").upper()',
            {"items.title": (0, 0, 0, PAGES)},
            [],
        ),
        ('".note"', '"h1"', {"items.note": (0, PAGES, 0, 0)}, []),
        (
            'yield {{',
            'if response.url.endswith("/3"):\n            raise ValueError(response.url)\n'
            "        yield {{",
            {"errors": (0, 1, 0, 0)},
            ["beta.errors: new on 1 of 6 pages"],
        ),
        ('css="a"', 'css="a[href*=n]"', {"requests": (PAGES, 0, PAGES, 0)}, []),
        (
            "def parse(self, response):",
            "def parse(self, response):\n        return",
            {"items": (0, 0, PAGES, 0), "requests": (0, 0, 2 * PAGES, 0)},
            ["beta.items: lost 6 of 6"],
        ),
        (
            '        yield from response.follow_all(css="a", callback="parse")',
            '        yield from response.follow_all(css="a", callback="other")\n\n'
            "    def other(self, response): ...",
            {"requests": (0, 2 * PAGES, 2 * PAGES, 0)},
            [],
        ),
    ],
    ids=["lost", "changed", "gained", "raises", "links", "nothing", "callback"],
)  # fmt: skip
def test_planted_regressions_are_shown(
    project: Project,
    old: str,
    new: str,
    differences: dict[str, tuple[int, int, int, int]],
    errors: list[str],
) -> None:
    file = project.spider("beta", old.replace("{{", "{"), new.replace("{{", "{"))
    found = project.preview(project.branch(file))
    assert parts(found) == {"beta": differences}
    assert told(found) == errors
    for tally in found.spiders[0].differing.values():
        assert {one.url.partition("/houses")[0] for one in tally.examples} == {
            "https://beta.example"
        }


def test_slower_pages_are_shown(project: Project) -> None:
    slow = "import time\n        time.sleep(0.05)\n        yield {"
    found = project.preview(project.branch(project.spider("beta", "yield {", slow)))
    assert "beta is slower" in markdown(found)
    assert told(found) == []
    project.write({f"{PACKAGE}/preview.toml": 'fail = ["slower"]'})
    project.write(project.spider("beta", "yield {", slow))
    assert any(one.startswith("beta: a page takes") for one in told(project.preview()))


def test_what_differs_from_run_to_run_is_left_out_and_said(project: Project) -> None:
    moving = 'yield {\n            "at": __import__("time").time_ns(),'
    project.commit(project.spider("beta", "yield {", moving), push=False)
    text = str(project.spider("beta", "yield {", moving)[f"{PACKAGE}/beta.py"])
    project.write({f"{PACKAGE}/beta.py": text.replace('".price"', '".gone"')})
    found = project.preview()
    assert parts(found) == {"beta": {"items.price": (0, 0, PAGES, 0)}}
    assert found.spiders[0].unsteady == {"items.at"}
    assert "beta: at differ from run to run" in markdown(found).replace("\\", "")


def test_a_page_that_kills_or_hangs_its_process(project: Project) -> None:
    killing = "import os\n        os._exit(3) if '/3' in response.url else None\n        yield {"
    found = project.preview(project.branch(project.spider("beta", "yield {", killing)))
    assert parts(found) == {"beta": {"errors": (0, 1, 0, 0)}}
    [example] = found.spiders[0].parts["errors"].examples
    assert example.after == "ended its process (exit code 3)"
    hanging = "while '/1' < response.url[-2:]: pass\n        yield {"
    project.write(project.spider("beta", "yield {", hanging))
    found = project.preview(deadline=1)
    errors = found.spiders[0].parts["errors"]
    assert (errors.gained, errors.examples[0].after) == (2, "took longer than 1 s")
    assert found.spiders[0].left_out.total() > 0  # the others are not waited for


def test_code_that_does_not_load(project: Project) -> None:
    found = project.preview(project.branch(project.spider("beta", "class Beta", "clas Beta")))
    [error] = told(found)
    assert error.startswith(
        f"beta: it does not load in change ({project.git('rev-parse', 'change')[:12]}"
    )
    assert f"{PACKAGE}/beta.py:5" in error
    assert "/tmp" not in error
    project.write(
        project.spider("beta", "class Beta", "import os; os.kill(os.getpid(), 9)\nclass Beta")
    )
    [error] = told(project.preview())
    assert signal.SIGKILL.name in error
    project.write({f"{PACKAGE}/beta.py": "x = 1"})
    assert told(project.preview()) == ["beta: the working tree does not have it"]
    project.write(project.spider("beta") | {f"{PACKAGE}/delta.py": "("})
    [error] = told(project.preview())
    assert error.startswith(f"spiders: {PACKAGE}/delta.py:1: SyntaxError")
    project.commit({}, push=False)
    project.git("add", "--all")
    project.commit({}, push=False)
    found = project.preview(unchanged=True)
    assert told(found) == []
    assert "delta.py:1" in found.notes[0]


def test_live_is_the_commit_of_the_newest_page(project: Project) -> None:
    first = project.head
    project.commit(project.spider("beta", '".price"', '".gone"'), push=False)
    assert project.preview(against="live").notes == [
        "no page tells the commit of the nodes; compared with HEAD"
    ]
    task = Task.objects.filter(spider="beta").get()
    numbers = dict.fromkeys(("depth", "attempts", "deliveries", "size", "fetch_ms", "items"), 0)
    row = Page.objects.create(rid=uuid4(), task=task, url="u", version=first[:12], **numbers)
    found = project.preview(against="live")
    assert (found.before, told(found)) == (f"{first[:12]} (live)", ["beta.price: lost 6 of 6"])
    row.version = "0123456789ab"
    row.save()
    with pytest.raises(ArgumentError, match="live is 0123456789ab, a commit that"):
        project.preview(against="live")


def test_bad_input(project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="'nothing' is no branch, tag or commit"):
        project.preview("nothing")
    with pytest.raises(
        NothingToPreview, match="no page of spider 'delta' is kept; there are: alpha"
    ):
        project.preview(spiders=["delta"])
    project.write({f"{PACKAGE}/preview.toml": "fails = 1"})
    with pytest.raises(Exception, match=r"preview.toml: .*fails"):
        project.preview()
    with pytest.raises(ArgumentError, match="is in no git checkout"):
        PreviewOrder(tmp_path, settings.CRAWLFRAME).run()
    KeptPage.objects.all().delete()
    with pytest.raises(NothingToPreview, match="no good page of any spider is kept"):
        project.preview()


def test_the_command(project: Project) -> None:
    project.write(project.spider("beta", '".price"', '".gone"'))
    for chosen, expected in (
        ("text", "beta    price          0       0     6        0"),
        ("markdown", "| `beta` | ❌ `price` |  |  | 6 |  |"),
    ):
        out = StringIO()
        with pytest.raises(CommandError, match=r"^beta.price: lost 6 of 6$") as error:
            call_command("preview", "--against", "HEAD", "--format", chosen, stdout=out)
        assert error.value.returncode == 1
        assert expected in out.getvalue()
        assert "https://beta.example/houses/" in out.getvalue()
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("preview", "--against", "HEAD", "--format", "json", stdout=out)
    found = json.loads(out.getvalue())
    assert found["spiders"][0]["parts"]["items.price"]["lost"] == PAGES
    out = StringIO()
    call_command("preview", "main", "--against", "HEAD", "--all", stdout=out)
    assert "0 differences, 0 errors by the rules" in out.getvalue()


def test_a_cancelled_job_ends_as_by_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreviewOrder, "run", lambda order: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(KeyboardInterrupt):
        call_command("preview")


def test_values_of_pages_are_no_markup(project: Project) -> None:
    evil = "`|\\n\\x1b[31m<img src=x>@all [a](http://b) | c"
    project.write(project.spider("beta", 'text(response, ".price")', f'"{evil}"'))
    found = project.preview()
    shown = markdown(found)
    assert "\x1b" not in shown
    lines = [line for line in shown.splitlines() if "<img" in line]
    assert lines
    assert all(line.count("`") % 2 == 0 and "'\\|" in line for line in lines)
    out = StringIO()
    call_command("preview", "--against", "HEAD", stdout=out)
    assert "\x1b" not in out.getvalue()
    assert json.dumps(as_json(found))


def test_the_sample_has_pages_of_each_callback_and_template() -> None:
    for number in range(50):
        keep("alpha", number, PAGE.format(n=number))
    keep("alpha", 50, PAGE, callback="other")
    keep("alpha", 51, PAGE, outcome="failed")
    keep("alpha", 52, PAGE, reason="callback")
    assert spiders_with_pages() == ["alpha"]
    found = [page for _, page in pages_to_try("alpha", 10)]
    numbers = [int(page.url.rpartition("/")[2]) for page in found]
    assert sorted(numbers) == [*range(41, 50), 50]
    assert len([*pages_to_try("alpha", 1)]) == 1
    assert [*pages_to_try("beta", 10)] == []


def test_the_spiders_that_are_tried_have_good_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tried_spiders(None) == []
    assert tried_spiders(["alpha"]) == []
    keep("alpha", 1, PAGE, reason="callback")
    assert tried_spiders(None) == []
    keep("beta", 1, PAGE)
    keep("gamma", 1, PAGE, sample="parse")
    assert tried_spiders(None) is None
    assert tried_spiders(["alpha", "beta", "gamma", "delta"]) == ["beta", "gamma"]
    monkeypatch.setattr(to_try, "MANY_SPIDERS", 1)
    assert tried_spiders(["alpha", "beta"]) == ["alpha", "beta"]


def test_recorded_pages_are_tried_where_none_is_kept(project: Project) -> None:
    KeptPage.objects.all().delete()
    folder = project.path / "tests/recorded/beta"
    recording = Recording(folder, Head("beta"))
    url = "https://beta.example/1"
    page = RecordedPage({"url": url}, [Exchange(url, status=200, body="body.html")])
    recording.add("one", page, {}, {"body.html": PAGE.format(n=1).encode()})
    recording.write()
    project.write(project.spider("beta", '".price"', '".gone"'))
    found = project.preview()
    assert (found.pages, parts(found)) == (1, {"beta": {"items.price": (0, 0, 1, 0)}})
    assert found.spiders[0].parts["items.price"].examples[0].url == url
