"""Messages are true: their advice names existing features, and no refusal denies a feature."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

import pytest

import crawlframe.actions
from crawlframe.base import scrapy_names
from crawlframe.identity.tls import Tls
from crawlframe.request.request import Request
from crawlframe.response.response import Response
from crawlframe.spider.settings import SpiderSettings
from crawlframe.spider.spider import Spider
from tests.command_lines import lines_in, problem_of
from tests.test_dead_code import strings, trees
from tests.test_rooms import CHECKOUT

pytest.importorskip("scrapy")
from scrapy.settings import default_settings

from crawlframe.scrapy import report
from crawlframe.scrapy import settings as scrapy_settings

TABLES: dict[str, dict[str, str]] = {
    "META": scrapy_names.META,
    "KEYWORDS": scrapy_names.KEYWORDS,
    "ATTRIBUTES": scrapy_names.ATTRIBUTES,
    "METHODS": scrapy_names.METHODS,
    "SETTINGS": {name: f"write {ours!r}" for name, ours in scrapy_names.SETTINGS.items()},
    "OTHER_SETTINGS": scrapy_names.OTHER_SETTINGS,
    "IGNORED": report.IGNORED,
    "NEVER_SENT": report.NEVER_SENT,
    "OTHERS": report.OTHERS,
    "MISSING": report.MISSING,
    "ELSEWHERE": scrapy_settings.ELSEWHERE,
    "FAMILIES": scrapy_settings.FAMILIES,
    "CANNOT": {**scrapy_settings.CANNOT, "DOWNLOAD_HANDLERS": scrapy_settings.HANDLERS},
    "INHERITS": {"a spider of Scrapy": scrapy_names.INHERITS},
}
MESSAGES = [
    pytest.param(text, id=f"{table}-{key}")
    for table, keys in TABLES.items()
    for key, text in keys.items()
]
ARGUMENTS = {*inspect.signature(Request.__init__).parameters} - {"self", "unknown"}
SETTINGS = {*SpiderSettings.__struct_fields__, *Tls.__struct_fields__}
RESPONSE = Response("http://a.example/", 200, {}, b"", Request("http://a.example/"))
HOOKS = {"closed", "opened", "start", "parse"}  # that authors may define
VARIABLES = {
    name
    for page in ("settings.md", "howto/quality.md")
    for name in re.findall(r"CRAWLFRAME_[A-Z_]+", (CHECKOUT / "docs" / page).read_text())
}
# Set by one process for another, by no person.
INTERNAL = {"CRAWLFRAME_PROMPT"}
ATTRIBUTES = {name for kind in (Spider, crawlframe.CrawlSpider) for name in dir(kind)}

# Features that earlier messages denied, by the words that a denial would have, and the spelling
# that such a message must name.
FEATURES = {
    r"render|browser|javascript": r"downloader='(browser|\.\.\.)'",
    r"imitat|impersonat": r"downloader='\.\.\.'",
    r"cach": r"`crawl --cache`",
    r"\bprox(y|ies)": r"proxy='pool'|DOWNLOAD|environment",
    r"\blog ?in\b|credential": r"`credential set`",
    r"adjust|throttl": r'"delay": "auto"|leave it out',
    r"page objects": r"native spiders have page objects",
    r"per IP|IP address": r'"ip": {"concurrency"',
}
DENIAL = re.compile(r"\b(no|not|none|never|neither|nothing|cannot|yet)\b|n't\b")
# Settings of Scrapy that Scrapy's own code reads in a ported project too, or that change nothing
# that a crawl fetches or yields.
WITHOUT_A_WORD = re.compile(
    r"ADDONS|ASYNCIO_EVENT_LOOP|AWS_.*|BOT_NAME|COMMANDS_MODULE|CONCURRENT_ITEMS|COOKIES_DEBUG|"
    r"CRAWLSPIDER_FOLLOW_LINKS|DEFAULT_DROPITEM_LOG_LEVEL|DEFAULT_ITEM_CLASS|DEPTH_STATS_VERBOSE|"
    r"DOWNLOADER|DOWNLOADER_STATS|DUPEFILTER_DEBUG|EDITOR|.*_BASE|FEED_EXPORT_ENCODING|FILES_.*|"
    r"FORCE_CRAWLER_PROCESS|FTP_.*|GCS_PROJECT_ID|HTTP2_MAX_FRAME_SIZE|HTTPAUTH_.*|"
    r"HTTPPROXY_AUTH_ENCODING|HTTPX_HTTP2_ENABLED|IMAGES_.*|LOGSTATS_INTERVAL|MAIL_.*|"
    r"MEMDEBUG_ENABLED|METAREFRESH_.*|NEWSPIDER_MODULE|PERIODIC_LOG_.*|RANDOMIZE_DOWNLOAD_DELAY|"
    r"REACTOR_THREADPOOL_MAXSIZE|REFERER_ENABLED|REFERRER_.*|RETRY_GIVE_UP_LOG_LEVEL|"
    r"SCRAPER_SLOT_MAX_ACTIVE_SIZE|SPIDER_CONTRACTS|SPIDER_LOADER_WARN_ONLY|SPIDER_MODULES|"
    r"STATSMAILER_RCPTS|STATS_DUMP|TEMPLATES_DIR|TWISTED_.*|WARN_ON_GENERATOR_RETURN_VALUE"
)
# Keys of meta that requests of a ported project honour, or that Scrapy only sets.
HONOURED = {
    "allow_offsite", "cookiejar", "depth", "dont_merge_cookies", "dont_redirect", "dont_retry",
    "download_latency", "download_maxsize", "download_timeout", "handle_httpstatus_all",
    "handle_httpstatus_list", "is_start_request", "max_retry_times", "redirect_reasons",
    "redirect_times", "redirect_ttl", "redirect_urls", "referrer_policy", "retry_times",
}  # fmt: skip


def unknown_in(text: str) -> Iterator[str]:
    """The names in a message that do not exist."""
    for name in re.findall(r"(?<![\w\"'])([a-z_]+)=", text):
        if name not in ARGUMENTS:
            yield f"argument {name}"
    for name in re.findall(r"[\"']([a-z_]+)\"?: ", text) + re.findall(
        r"write [\"']([a-z_]+)[\"']", text
    ):
        key = "".join(name)
        if key not in SETTINGS and key != "flags":  # a key of the author's own
            yield f"setting {key}"
    for name in re.findall(r"\bwrite ([a-z_]+)(?: = |,)", text):
        if name not in SETTINGS | ATTRIBUTES | {"settings"}:
            yield f"attribute {name}"
    for name in re.findall(r"\b(?:call it|a method|in) ([a-z_]+)\b(?! [a-z]|/)", text):
        if name not in ATTRIBUTES | HOOKS:
            yield f"method {name}"
    for name in re.findall(r"([a-z_]+)\(self", text):
        if name not in ATTRIBUTES | HOOKS:
            yield f"hook {name}"
    for name in re.findall(r"response\.([a-z_]+)", text):
        if not hasattr(RESPONSE, name):
            yield f"response.{name}"
    for name in re.findall(r"\b([A-Z][A-Za-z]+)\(\)", text):
        if not hasattr(crawlframe.actions, name):
            yield f"action {name}"
    for name in re.findall(r"inherit from ([A-Z]\w+)", text):
        if not hasattr(crawlframe, name):
            yield f"class {name}"
    for name in re.findall(r"CRAWLFRAME_[A-Z_]+", text):
        if name not in VARIABLES:
            yield name
    for path in re.findall(r"docs/[\w/.-]+\.md", text):
        if not (CHECKOUT / path).exists():
            yield path
    for words in re.findall(r"`([a-z][a-z -]*)`", text) + re.findall(r"the command ([a-z]+)", text):
        if problem_of(words.split()):
            yield f"command {words}"


@pytest.mark.parametrize("text", MESSAGES)
def test_what_a_message_names_exists(text: str) -> None:
    assert [*unknown_in(text)] == []


@pytest.mark.parametrize("text", MESSAGES)
def test_no_message_denies_a_feature(text: str) -> None:
    for words, spelling in FEATURES.items():
        if re.search(words, text, re.IGNORECASE) and DENIAL.search(text):
            assert re.search(spelling, text), f"{words}: {text}"
    assert "yet" not in text.split()


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("write timout=30 in the request", "argument timout"),
        ('write settings = {"dely": 1.0} in the spider', "setting dely"),
        ("write 'dely'", "setting dely"),
        ("response.hops has the URLs", "response.hops"),
        ("leave it out, and run `crawl --cahce`", "command crawl --cahce"),
        ("store it with `credentials set`", "command credentials set"),
        ("write them with the command exprt", "command exprt"),
        ("it is a setting of the node: CRAWLFRAME_LOGLEVEL", "CRAWLFRAME_LOGLEVEL"),
        ("inherit from CrawlingSpider", "class CrawlingSpider"),
        ("write actions=[KeepThePage()]", "action KeepThePage"),
        ("its keys are in docs/spider.md", "docs/spider.md"),
        ("call it begin", "method begin"),
        ("write close(self, summary) in the spider", "hook close"),
    ],
)
def test_a_wrong_name_is_found(text: str, unknown: str) -> None:
    assert [*unknown_in(text)] == [unknown]


@pytest.mark.parametrize(
    "text",
    [
        "pages are not rendered in a browser yet; fetch the API that the page uses",
        "nothing is cached; leave it out",
        "delays are never adjusted; write delay",
        "proxies are not supported in spiders of Scrapy",
    ],
)
def test_a_denial_is_found(text: str) -> None:
    with pytest.raises(AssertionError):
        test_no_message_denies_a_feature(text)


def test_each_key_of_scrapys_meta_is_honoured_or_named_in_a_project() -> None:
    left = {*scrapy_names.META} - HONOURED - {*report.IGNORED} - {"proxy", "dont_merge_cookies"}
    assert [key for key in left if not key.startswith(tuple(report.MISSING))] == []
    assert HONOURED.isdisjoint(report.IGNORED)


@pytest.mark.slow
def test_each_setting_of_scrapy_is_honoured_or_named_in_a_project() -> None:
    source = {
        text
        for name, tree in trees().items()
        if name.startswith("crawlframe.scrapy")
        for text in strings(tree)
    }
    names = [name for name in dir(default_settings) if name.isupper()]
    assert len(names) > 100
    left = [
        name
        for name in names
        if not scrapy_settings.ignored(name)
        and not WITHOUT_A_WORD.fullmatch(name)
        and name not in source
    ]
    assert left == []


@pytest.mark.slow
def test_all_variables_that_messages_name_exist() -> None:
    wrong = {
        (module, name)
        for module, tree in trees().items()
        for text in strings(tree)
        for name in re.findall(r"\bCRAWLFRAME_[A-Z_]*[A-Z]\b", text)
        if name not in VARIABLES | INTERNAL
    }
    assert wrong == set()


@pytest.mark.slow
def test_all_commands_that_messages_name_exist() -> None:
    named = []
    for module, tree in trees().items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id="command"), args=[first]):
                    named.append((module, _text(first).split()))
                case ast.Call(func=ast.Attribute(attr="done"), args=[_, undo]):
                    named.append((module, _text(undo).split()))
        named += [(module, words) for text in strings(tree) for words in lines_in(text)]
    for page in (CHECKOUT / "crawlservice/templates").rglob("*.*"):
        text = re.sub(r'{% command "([^"]+)"', r"`crawlframe \1`", page.read_text())
        named += [(page.name, words) for words in lines_in(text)]
        assert page.suffix != ".html" or "manage.py" not in text, "by the tag command"
    assert len(named) > 80
    # Words that another place puts in, and sentences such as "a manage.py of Crawlframe".
    known = [
        (where, words)
        for where, words in named
        if not {"1", "WORD", "of", "submission"} & {*words[:2]}
    ]
    wrong = {(where, problem_of(words)) for where, words in known if words}
    assert {(where, problem) for where, problem in wrong if problem} == set()


def _text(node: ast.expr) -> str:
    """A text with 1 for each value that is put into it; "" if it is made elsewhere."""
    match node:
        case ast.Constant(str(text)):
            return text
        case ast.JoinedStr(values):
            return "".join(_text(value) or "1" for value in values)
    return ""
