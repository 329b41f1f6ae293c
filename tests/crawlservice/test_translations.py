"""The admin in Chinese: the catalogue is complete, and the compiled one is up to date."""

from __future__ import annotations

import ast
import gettext
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import translation

from crawlframe.frontier import Frontier
from crawlservice.accounts import setup_link
from crawlservice.admin.people import journal
from crawlservice.models import Finding
from crawlservice.quality import wording
from crawlservice.quality.wording import QUALITY, SENTENCES, in_language
from tests.conftest import CHECKOUT

CATALOG = CHECKOUT / "crawlservice" / "locale" / "zh_Hans" / "LC_MESSAGES"
ENTRY = re.compile(
    r'^msgid (".*")\n(?:msgid_plural (".*")\n)?msgstr(?:\[0\])? (".*")$', re.MULTILINE
)
KEPT = re.compile(r"%\(\w+\)s|\{[\w!]*\}|</?\w+[^>]*>")


@pytest.fixture(autouse=True)
def own_language() -> Iterator[None]:
    """Resets the language: a request of the test client would change it for later tests."""
    yield
    translation.deactivate()


def entries(path: Path) -> dict[str, str]:
    """Text -> translation; the header is left out."""
    found = ENTRY.findall(path.read_text())
    texts = {ast.literal_eval(text): ast.literal_eval(told) for text, _, told in found}
    texts.pop("", None)
    return texts


def test_every_text_is_translated_and_keeps_its_places() -> None:
    page = (CATALOG / "django.po").read_text()
    assert "fuzzy" not in page
    found = entries(CATALOG / "django.po")
    assert len(found) + 1 == page.count("msgid ")  # each was read, with the header
    assert len(found) > 80
    for one, many, told in ENTRY.findall(page)[1:]:
        assert told != '""', one
        assert sorted(KEPT.findall(many or one)) == sorted(KEPT.findall(told)), one


def test_texts_within_others_are_in_the_catalogue() -> None:
    code = "".join(path.read_text() for path in (CHECKOUT / "crawlservice").rglob("*.py"))
    hidden = {*re.findall(r"""\{(?:gettext|_)\(['"]([^'"]+)""", code)}  # makemessages misses these
    assert hidden <= {*entries(CATALOG / "django.po")}


def test_what_is_compiled_is_what_was_translated() -> None:
    with (CATALOG / "django.mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    found = entries(CATALOG / "django.po")

    def told(text: str) -> str:
        alone = compiled.gettext(text)
        return alone if alone != text else compiled.ngettext(text, text, 2)

    assert {text: told(text) for text in found} == found


@pytest.mark.skipif(shutil.which("xgettext") is None, reason="no gettext here")
def test_no_text_of_the_code_is_missing(tmp_path: Path) -> None:
    copy = tmp_path / "crawlservice"
    shutil.copytree(CHECKOUT / "crawlservice", copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po").unlink()
    # -P: our modules there would shadow others.
    command = [sys.executable, "-P", "-m", "django", "makemessages", "-l", "zh_Hans", "--no-wrap"]
    env = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    now = entries(copy / "locale" / "zh_Hans" / "LC_MESSAGES" / "django.po")
    assert now.keys() == entries(CATALOG / "django.po").keys(), "run: make messages"


def test_pages_speak_the_language_of_the_browser(service: Frontier) -> None:
    link = f"/{setup_link.make()}"
    for language, words in (("zh-CN,zh;q=0.9", "创建账号并登录"), ("en", "Create the account")):
        client = Client(SERVER_NAME="localhost", headers={"accept-language": language})
        page = client.get(link).content.decode()
        assert words in page
    assert (
        "欢迎回到"
        in Client(SERVER_NAME="localhost", headers={"accept-language": "zh-Hans"})
        .get("/admin/login/")
        .content.decode()
    )


def test_who_is_logged_in_may_choose(as_role) -> None:
    client = as_role("administrator")
    assert "Journal" in client.get("/admin/crawlservice/action/").content.decode()
    client.post("/i18n/setlang/", {"language": "zh-hans", "next": "/admin/"})
    page = client.get("/admin/auth/user/add/").content.decode()
    assert "操作日志" in client.get("/admin/crawlservice/action/").content.decode()
    assert "sees everything" not in page
    assert "查看者：可查看除人员和保留页面内容以外的一切" in page


SAME = {
    "JSON",
    "SHA-256",
    "lastmod",
    "URL",
    "Webhook",
    "basic",
    "digest",
    "bearer",
    "robots.txt",
    "Crawl-delay",
}  # in both languages
# No page of the admin has them.
NOT_SHOWN = {
    "AlertNotice", "AlertReport", "BotKey", "ExportFile", "Installation", "Sample", "StartPart",
    "PageBody", "Submission", "SetupLink", "WatchedHost",
}  # fmt: skip
HIDDEN = {
    "id", "seeds", "follow_ups", "request", "digest",
    "published_limits", "limits_unsent", "sealed_secret",
    "minute", "minute_fetches", "before_fetches", "order_number", "unsent",
    "Alert.subject", "AlertMessage.key", "BulkRetry.first_page", "BulkRetry.last_page",
    "BulkRetry.position", "Case.key", "CaseSpider.held", "Export.changed", "Profile.content",
    "KeptPage.etag", "KeptPage.key", "KeptPage.modified", "KeptPage.record", "KeptPage.signature",
    "Watch.groups", "WatchedItem.key", "WatchedPage.key", "WatchedPage.mean_every",
    "WatchedPage.rank", "WatchedPage.record", "WatchedPage.said_at", "WatchedPage.said_every",
    "WatchedPage.shape", "WatchedPage.time",
    "Proxy.named_by", "ProxySource.run", "ProxySource.judged",
}  # fmt: skip


def named() -> Iterator[tuple[str, str]]:
    """The names of models, their fields and choices."""
    for model in apps.get_app_config("crawlservice").get_models():
        options, shown = model._meta, model.__name__ not in NOT_SHOWN
        names: list[tuple[str, Any]] = [
            ("one", options.verbose_name),
            ("many", options.verbose_name_plural),
        ]
        for field in options.fields:
            if HIDDEN.isdisjoint({field.name, f"{model.__name__}.{field.name}"}):
                names += [(field.name, field.verbose_name), (field.name, field.help_text)]
                names += [(field.name, label) for _, label in field.flatchoices]
        if shown:
            yield from ((f"{model.__name__}.{place}", str(name)) for place, name in names if name)


def test_models_fields_and_choices_have_chinese_names() -> None:
    with translation.override("zh-hans"):
        english = {place: name for place, name in named() if name.isascii() and name not in SAME}
    assert english == {}


def verbs() -> set[str]:
    """Verbs written to the journal, as far as the code has them as literals."""
    calls = re.compile(r"\b(?:record|note)\(\s*(?:request, )?(.*?),", re.DOTALL)
    sources = [path.read_text() for path in (CHECKOUT / "crawlservice").rglob("*.py")]
    found = {text for source in sources for text in calls.findall(source)}
    return {ast.literal_eval(text) for text in found if re.fullmatch(r'"[a-z_ ]+"', text)}


def test_what_the_journal_says_is_translated() -> None:
    found = verbs() | {"add_user", "change_group", "delete webhook", "disable schedule"}
    assert len(found) > 15
    with translation.override("zh-hans"):
        assert {verb for verb in found if journal.verb_text(verb).isascii()} == set()
    assert journal.verb_text("renew webhook secret") == "renew webhook secret"
    assert journal.verb_text("add_user") == "add user"
    assert journal.verb_text("something_of a later release") == "something of a later release"


def test_a_role_says_what_it_may_in_the_language_of_the_reader(as_role) -> None:
    client = as_role("administrator")
    place = f"/admin/auth/group/{Group.objects.get(name='operator').pk}/change/"
    page = client.get(place).content.decode()
    for words in ("Can view pages", "Can pause, resume, cancel and retry any task"):
        assert words in page
    page = client.get(place, headers={"accept-language": "zh-hans"}).content.decode()
    for words in ("操作员", "查看页面", "暂停、恢复、取消和重试任意任务"):
        assert words in page
    assert "Can " not in page


def test_reasons_that_are_stored_are_shown_in_the_language_of_the_reader() -> None:
    for monitor, high in product(wording._sentences(1), (None, 0.95)):
        share = {"unit": "share", "seen": 0.03, "low": 0.9, "high": high}
        finding = Finding(monitor=monitor, field="price", subject="new", **share)
        with translation.override("en"):
            stored = f"{QUALITY}{wording.sentence_of(finding)}"
        with translation.override("zh-hans"):
            assert in_language(stored) == f"质量: {wording.sentence_of(finding)}"
    stored = "9 of 12 pages ended in error, all callback (KeyError: 'all'); 0 items; task 3 had 7"
    assert in_language(stored) == stored
    with translation.override("zh-hans"):
        assert in_language(stored).startswith(
            "9 个（共 12 个）页面以错误结束，均为 回调抛出异常 (KeyError: 'all'); 0"
        )
        assert {one for one in SENTENCES if in_language(one.replace("{}", "7")).isascii()} == set()
