"""Commands: their output, the refusal of bad input in plain words, and their exit codes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from io import BytesIO, StringIO, TextIOWrapper
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection

from crawlframe.frontier import Frontier
from crawlservice.management.commands.spider import PLUGIN
from crawlservice.management.commands.startspider import NewSpiderError, write_spider
from crawlservice.models import Item, Page, Task
from crawlservice.tasks.submit import pause, submit
from examples.demo_site import DemoServer
from tests.crawlservice.conftest import redis_at

CHECKOUT = Path(__file__).resolve().parents[2]

Manage = Callable[..., subprocess.CompletedProcess[str]]


def run(*arguments: object, **options: Any) -> str:
    out = StringIO()
    call_command(*map(str, arguments), stdout=out, stderr=out, **options)
    return out.getvalue()


def test_submit_tells_the_number_and_what_comes_next(published: Frontier) -> None:
    text = run("submit", "shop", "-a", "city=Ulm", "-a", "pages=2", "--priority", "5")
    task = Task.objects.get()
    assert f"task {task.pk} submitted: shop" in text
    assert f"task show {task.pk} --follow" in text
    assert (task.arguments, task.priority) == ({"city": "Ulm", "pages": 2}, 5)


def test_submit_refuses_bad_input(published: Frontier) -> None:
    for arguments, words in (
        (["shopp"], "did you mean 'shop'"),
        (["shopp"], "; python manage.py check says what does not load"),
        (["shop"], "needs the argument 'city'"),
        (["shop", "-a", "city"], "give name=value"),
        (["shop", "-a", "city=Ulm", "-a", "pages=x"], "give a whole number"),
        (["shop", "-a", "city=Ulm", "--priority", "1000"], "priority 1000"),
    ):
        with pytest.raises(CommandError) as raised:
            run("submit", *arguments)
        assert words in str(raised.value)
        assert not Task.objects.exists()


def test_tasks_lists_numbers_of_running_and_ended_tasks(ended_task: Task) -> None:
    running = submit("shop", {"city": "Ulm"})
    head, first, second = run("task", "list").splitlines()
    assert " ".join(head.split()) == "id spider state items errors requests done left parked time"
    assert " ".join(first.split()[:9]) == f"{running.pk} shop running 0 0 1 0 1 0"
    ended = f"{ended_task.pk} shop finished with errors 2 1 3 2 0 0"
    assert " ".join(second.split()[:11]) == ended
    assert "older" not in run("task", "list")
    _, only, older = run("task", "list", "-n", "1").splitlines()
    assert only.split()[:9] == first.split()[:9]
    assert older == "… 1 older ones: -n 2"
    assert "older" not in run("task", "list", "-n", "1", "--active")
    assert "no tasks" not in run("task", "list", "-n", "0")
    assert str(ended_task.pk) not in run("task", "list", "--active").splitlines()[1].split()[0]
    assert run("task", "list", "--outcome", "finished_with_errors").splitlines()[1] == second
    assert run("task", "list", "--outcome", "failed") == "no task is failed\n"


def test_tasks_marks_those_that_parse_kept_pages(ended_task: Task) -> None:
    assert "parses again" not in run("task", "list")
    Task.objects.filter(pk=ended_task.pk).update(reparse={"task": 7})
    assert f"{ended_task.pk} shop (parses again) finished" in " ".join(run("task", "list").split())


def test_tasks_says_when_there_are_none(service: Frontier) -> None:
    assert "no tasks" in run("task", "list")


def test_tasks_marks_what_redis_cannot_tell(published: Frontier) -> None:
    submit("shop", {"city": "Ulm"})
    with redis_at("redis://127.0.0.1:1/0"):
        assert "running (waits for Redis)" in run("task", "list")


def test_task_shows_an_ended_task_with_its_errors(ended_task: Task) -> None:
    for arguments in ([], ["--follow"]):
        text = run("task", "show", ended_task.pk, *arguments)
        lines = [" ".join(line.split()) for line in text.splitlines()]
        assert {"requests 3", "done 2", "errors 1", "left 0"} <= {*lines}
        assert f"state finished with errors: {ended_task.reason}" in lines
        assert "http_404" in text
        assert "http://shop.example/b  answered 404" in text
        assert text.count("http://shop.example/b") == 1
        assert f"table crawlservice_item, task_id {ended_task.pk}" in text


def test_who_waits_for_a_task_learns_how_it_ended(ended_task: Task) -> None:
    for outcome, code in (("failed", 1), ("cancelled", 3)):
        Task.objects.update(outcome=outcome, reason="")
        assert outcome in run("task", "show", ended_task.pk)
        text = f"task {ended_task.pk} (has|was) {outcome}"
        with pytest.raises(CommandError, match=text) as raised:
            run("task", "show", ended_task.pk, "--follow")
        assert raised.value.returncode == code


def test_task_names_the_code_that_made_its_pages(
    ended_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "pages by code" not in run("task", "show", ended_task.pk)
    first, *later = Page.objects.order_by("id")
    Page.objects.filter(pk__in=[page.pk for page in later]).update(version="2f00c0ffee00")
    assert "pages by code  2f00c0ffee00 (2), unknown (1) " in run("task", "show", ended_task.pk)
    Page.objects.filter(pk=first.pk).update(version="1f00c0ffee00")
    assert "pages by code  2f00c0ffee00 (2), 1f00c0ffee00 (1) " in run(
        "task", "show", ended_task.pk
    )
    monkeypatch.setattr("crawlservice.tasks.progress.summary.MAX_ROWS", 2)
    assert "2f00c0ffee00 (2) of the latest 2 pages " in run("task", "show", ended_task.pk)


def test_task_shows_what_waits_and_why(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    (claimed,) = published.claim(1, 1, 10).requests
    published.park(1, [claimed.given_back("no spider 'shop'")])
    text = run("task", "show", task)
    assert "1: no spider 'shop'" in text
    assert "parked 1" in text


def test_an_error_names_its_url_once(ended_task: Task) -> None:
    for detail, shown in (
        ("http://shop.example/b answered 404", "http://shop.example/b  answered 404"),
        ("http://shop.example/b: no answer", "http://shop.example/b  no answer"),
        ("http://shop.example/bc: no answer", "http://shop.example/b  http://shop.example/bc: no"),
    ):
        ended_task.page_set.filter(reason="http_404").update(detail=detail)
        assert shown in run("task", "show", ended_task.pk)


def test_what_was_scraped_cannot_steer_the_terminal(ended_task: Task) -> None:
    ended_task.page_set.filter(reason="http_404").update(detail="\x1b]0;owned\x07 [bold]x")
    text = run("task", "show", ended_task.pk)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[bold]x" in text


def test_steering_by_command(published: Frontier) -> None:
    task = submit("shop", {"city": "Ulm"}).pk
    for verb, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelling")):
        assert f"task {task}" in run("task", verb, task)
        assert Task.objects.get().state == state
    with pytest.raises(CommandError, match="is cancelling and cannot be paused"):
        run("task", "pause", task)
    with pytest.raises(CommandError, match="no task 77"):
        run("task", "cancel", 77)


def test_audit_passes_what_is_good(ended_task: Task) -> None:
    paused = submit("shop", {"city": "Ulm"}).pk
    pause(paused)
    assert run("store", "audit").splitlines() == [
        f"task {ended_task.pk}: all holds",
        f"task {paused}: all holds",
        "all holds: 2 tasks and the frontier",
    ]
    assert run("store", "audit", ended_task.pk) == "all holds: 1 tasks and the frontier\n"


def test_audit_says_on_a_terminal_how_far_it_is(
    ended_task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = StringIO()
    call_command("store", "audit", stdout=StringIO(), stderr=err)
    assert err.getvalue() == ""
    monkeypatch.setattr(err, "isatty", lambda: True)
    call_command("store", "audit", stdout=StringIO(), stderr=err)
    assert "ledger rows" in err.getvalue()
    assert "100%" in err.getvalue()


def test_audit_names_damage_in_database_and_frontier(
    ended_task: Task, redis_client: Any, published: Frontier
) -> None:
    Item.objects.all().delete()
    out = StringIO()
    with pytest.raises(CommandError, match="problems in 1 tasks"):
        call_command("store", "audit", stdout=out)
    assert " has 0 of 2" in out.getvalue()
    task = submit("shop", {"city": "Ulm"}).pk
    redis_client.hincrby(published.store.keys[0]("TASK", task), "na", 3)
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("store", "audit", str(task), stdout=out)
    assert f"task {task}" in out.getvalue()


def test_export_writes_the_items(ended_task: Task, tmp_path: Path) -> None:
    text = run("task", "export", ended_task.pk, "-o", tmp_path / "items.csv")
    assert text == f"2 items of task {ended_task.pk} written to {tmp_path}/items.csv\n"
    assert (tmp_path / "items.csv").read_text().split() == ["n", "1", "2"]
    running = submit("shop", {"city": "Ulm"}).pk
    assert "it is running" in run("task", "export", running, "-o", tmp_path / "some.jsonl")
    assert (tmp_path / "some.jsonl").read_text() == ""


def test_export_refuses_bad_input(ended_task: Task, tmp_path: Path) -> None:
    for task, output, words in (
        ("77", "items.csv", "there is no task 77"),
        ("1", "items.xlsx", "is none of .jsonl, .csv, .parquet"),
        ("1", "nowhere/items.csv", "there is no directory"),
    ):
        with pytest.raises(CommandError) as raised:
            run("task", "export", task, "-o", tmp_path / output)
        assert words in str(raised.value)
        assert [*tmp_path.glob("items*")] == []


def test_a_database_that_takes_no_writes_says_what_to_do(published: Frontier) -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
    with pytest.raises(CommandError, match="writable, or set CRAWLFRAME_VAR_DIR"):
        run("submit", "shop", "-a", "city=Ulm")


def test_redis_that_cannot_be_reached_is_named(published: Frontier) -> None:
    with (
        redis_at("redis://:secret@127.0.0.1:1/0"),
        pytest.raises(CommandError, match="cannot be reached") as raised,
    ):
        run("submit", "shop", "-a", "city=Ulm")
    assert "secret" not in str(raised.value)


def test_check_shows_the_spiders_of_the_checkout() -> None:
    text = run("check")
    assert "listings" in text
    assert 'city: text = "berlin"' in text
    assert "concurrency = 64" in text


@pytest.fixture
def site(tmp_path: Path, manage_env: dict[str, str]) -> Callable[..., Any]:
    """Runs manage.py of another checkout, whose ``spiders`` a test fills."""
    (tmp_path / "manage.py").write_text((CHECKOUT / "manage.py").read_text())
    (tmp_path / "spiders").mkdir()
    (tmp_path / "spiders" / "__init__.py").touch()
    manage_env["PYTHONPATH"] = str(CHECKOUT)
    manage_env["DATABASE_URL"] = f"sqlite:///{tmp_path}/db.sqlite3"

    def run_there(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *map(str, arguments)],
            cwd=tmp_path,
            env=manage_env,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run_there


@pytest.mark.process
def test_startspider_writes_a_spider_that_passes_check(
    site: Callable[..., Any], tmp_path: Path
) -> None:
    made = site("startspider", "my_shop", "https://shop.example/a?b='\"{}$x\\n")
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "spiders" / "my_shop.py").read_text()
    assert "class MyShopSpider(Spider):" in text
    assert 'allowed_domains = ("shop.example",)' in text
    checked = site("check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "my_shop" in checked.stdout
    test = (tmp_path / "tests" / "test_my_shop.py").read_text()
    assert "from spiders.my_shop import MyShopSpider\n" in test
    assert "manage.py spider record my_shop" in test
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", PLUGIN, "tests"],
        cwd=tmp_path,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{tmp_path}:{CHECKOUT}",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # plug-ins of others, which start slowly
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "1 passed" in tested.stdout, tested.stdout
    with pytest.raises(NewSpiderError, match="exists already"):
        write_spider(tmp_path / "spiders", "spiders", "my_shop", "https://shop.example/")
    assert (tmp_path / "spiders" / "my_shop.py").read_text() == text


@pytest.fixture
def loopback(settings_with: Callable[..., None]) -> None:
    """Lets commands in this process fetch from this machine."""
    private = (ip_network("127.0.0.0/8"),)
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, allow_private=private))


@pytest.mark.forks
def test_startspider_records_if_it_is_asked_to(
    tmp_path: Path, loopback: None, settings_with: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch, demo: DemoServer,
) -> None:  # fmt: skip
    package = tmp_path / "recorded_first"
    package.mkdir()
    (package / "__init__.py").touch()
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_books.py").write_text("kept")
    monkeypatch.syspath_prepend(tmp_path)
    settings_with(CRAWLFRAME=replace(settings.CRAWLFRAME, spiders=package.name))
    monkeypatch.setattr("crawlservice.management.commands.spider.PageRecorder.pause", 0.0)
    said = run("startspider", "books", demo.url, "--record")
    assert f"to {tmp_path}/tests/recorded/books" in said
    assert (tmp_path / "tests/recorded/books/start.page.json").exists()
    assert (tmp_path / "tests" / "test_books.py").read_text() == "kept"


def test_a_new_spider_has_the_settings_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crawlframe.spider.spider import read_settings

    package = tmp_path / "fresh_project"
    package.mkdir()
    (package / "project.py").write_text(
        "from crawlframe import Spider\n\n\nclass ProjectSpider(Spider):\n"
        '    settings = {"delay": 7, "concurrency": 3, "timeout": 9}\n'
    )
    write_spider(package, "fresh_project", "books", "https://shop.example/")
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("fresh_project.books").BooksSpider
    settings = read_settings(made)
    assert (settings.delay, settings.concurrency, settings.timeout) == (7, 3, 9)


@pytest.mark.parametrize("name", ["my-shop", "1shop", "class", "_", "../x", "Spi der", ""])
def test_startspider_refuses_names_that_no_module_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(NewSpiderError, match="cannot be a spider's name"):
        write_spider(tmp_path, "spiders", name, "https://shop.example/")
    assert [*tmp_path.iterdir()] == []


def test_startspider_refuses_bad_urls(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="not an absolute URL"):
        run("startspider", "some_new_spider", "shop.example")


@pytest.mark.process
def test_check_and_crawl_name_file_and_line_of_a_broken_spider(
    site: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "spiders" / "bad.py").write_text("import json\n\n1 / 0\n")
    checked, crawled = site("check"), site("crawl", "bad")
    for done in (checked, crawled):
        assert done.returncode == 1
        output = done.stdout + done.stderr
        assert f"{tmp_path}/spiders/bad.py:3: ZeroDivisionError" in output
        assert "registry.py" not in output
    assert "Traceback" in checked.stdout
    assert "Traceback" not in crawled.stderr


def test_crawl_refuses_bad_input_before_anything_happens(service: Frontier) -> None:
    for arguments, words in (
        (["listings", "-o", "out.xlsx"], "is none of .jsonl, .csv, .parquet"),
        (["listings", "-o", "nowhere/out.csv"], "no directory nowhere"),
        (["listings", "-a", "ciity=x"], "did you mean 'city'"),
        (["listings", "-s", "robots=perhaps"], "robots': 'perhaps' is not accepted; give true or"),
        (["listing"], "did you mean 'listings'"),
        (["listings", "--workers", "0"], "workers is 0"),
        (["site", "--url", "example.com"], "not an absolute URL"),
        (["site", "--url", "http://a/", "-a", "url=http://b/"], "either --url or -a url"),
        (["site"], "needs the argument 'url'"),
    ):
        with pytest.raises(CommandError) as raised:
            run("crawl", *arguments)
        assert words in str(raised.value)
        assert not Task.objects.exists()


@pytest.fixture(scope="module")
def demo() -> Iterator[DemoServer]:
    with DemoServer(listings=3) as server:
        yield server


def test_fetch_prints_the_body_as_it_came(
    service: Frontier, demo: DemoServer, loopback: None
) -> None:
    url = f"{demo.url}/search?city=berlin"
    for options in ([], ["--downloader", "requests"], ["--spider", "listings"]):
        page = TextIOWrapper(BytesIO(), "utf-8")
        call_command("fetch", url, *options, stdout=page)
        assert page.buffer.getvalue().startswith(b"<!DOCTYPE html>")
        assert "Schöneberg".encode() in page.buffer.getvalue()
        head = run("fetch", url, "--headers", *options)
        assert head.startswith(f"200 {url}\n")
        assert "content-type: text/html" in head.lower()
        assert "status 404" in run("fetch", f"{demo.url}/nowhere", *options)


@pytest.mark.process
def test_fetch_opens_a_prompt_with_the_response(manage: Manage, demo: DemoServer) -> None:
    lines = "print(response.status, response.css('h1').get()[:3])\nprint(fetch(request.url).ok)\n"
    done = manage("fetch", f"{demo.url}/search?city=berlin", "--shell", input=lines)
    assert "200 <h1" in done.stdout
    assert "True" in done.stdout


@pytest.mark.process
def test_an_error_at_the_prompt_is_shown_alone(
    manage: Manage, manage_env: dict[str, str], tmp_path: Path, demo: DemoServer
) -> None:
    (tmp_path / "IPython.py").write_text("raise ImportError('not here')\n")
    manage_env["PYTHONPATH"] = str(tmp_path)
    done = manage("fetch", f"{demo.url}/", "--shell", input="1/0\nprint(repr(fetch))\n")
    assert done.stderr.count("Traceback") == 1
    assert "ZeroDivisionError" in done.stderr
    assert "ImportError" not in done.stderr
    assert "fetch at 0x" in done.stdout  # the prompt continues


@pytest.mark.process
def test_a_python_without_the_packages_is_reported_in_one_line() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", CHECKOUT / "manage.py", "tasks"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "not installed for this Python; first: . .venv/bin/activate" in done.stderr
    assert done.stderr.count("\n") == 1


def test_fetch_says_why_it_cannot(service: Frontier, loopback: None) -> None:
    for arguments, words in (
        (["http://127.0.0.1:1/"], "127.0.0.1"),
        (["example.com"], "not an absolute URL"),
        (["http://10.0.0.1/"], "CRAWLFRAME_ALLOW_PRIVATE"),
        (["http://127.0.0.1:1/", "--spider", "listing"], "did you mean 'listings'"),
    ):
        with pytest.raises(CommandError) as raised:
            run("fetch", *arguments)
        assert words in str(raised.value)
