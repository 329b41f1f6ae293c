"""spider: the spiders with their last runs; pages of them, recorded as tests."""

from __future__ import annotations

import tempfile
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from rich.text import Text

from crawlframe.base.program import command
from crawlframe.conf import Settings
from crawlframe.errors import CrawlframeError
from crawlframe.identity.identity import Identity
from crawlframe.load_spiders import load_spiders
from crawlframe.pages.secrets import STRIPPED
from crawlframe.proxies.proxy import ChosenProxy
from crawlframe.recorded.difference import differences
from crawlframe.recorded.folder import HEAD, START, Recording, files_in, recordings_of
from crawlframe.recorded.record import Made, make
from crawlframe.recorded.recorder import PAUSE, RecordedVisit, Recorder
from crawlframe.spider.spider import read_settings
from crawlservice.cli.command import JsonCommand, ServiceCommand, add_json
from crawlservice.cli.listing import Listing, facts_table, plain, status
from crawlservice.cli.named_spider import NamedSpider, NamedSpiders
from crawlservice.cli.noun import Noun
from crawlservice.cli.secret_input import read_secret, with_secrets
from crawlservice.cli.spider_check import settings_of
from crawlservice.cli.terminal import add_arguments
from crawlservice.identity.page_robots import PageRobots
from crawlservice.identity.papers import identity_here
from crawlservice.proxies.pool import pool_here
from crawlservice.tasks import spider_switch
from crawlservice.tasks.arguments import spider_arguments
from crawlservice.tasks.arguments.spider_arguments import parse_pairs, signature
from crawlservice.tasks.spider_runs import SpiderNow, look_up, overview

WHO: dict[str, Any] = {"command": True}
MAX_DIFFERENCES = 5  # differences of one page
MAX_PAGES = 1000  # pages
PLUGIN = "crawlframe.recorded.pytest_plugin"


class RecordPages(ServiceCommand):
    help = (
        "Crawls some pages of a spider, one at a time, and writes them with what its callbacks "
        "make of them to tests/recorded/SPIDER, without secrets. pytest replays them without "
        "network. Again, it updates the folder and shows what has changed. Neither Redis nor a "
        "database is needed."
    )
    needs_database = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("spider")
        add_arguments(parser, "; without any, an earlier recording's are used")
        parser.add_argument(
            "--pages", type=_pages, default=20, help="how many are fetched at most; 20 by default"
        )
        parser.add_argument(
            "-o", "--output", type=Path, metavar="DIR", help="in place of tests/recorded/SPIDER"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        registry = load_spiders(settings.CRAWLFRAME)
        named = NamedSpiders(registry).get(options["spider"])
        if named.note:
            self.stderr.write(f"note: {named.note}")
        identity, lacks = identity_here()
        if lacks:
            self.stderr.write(f"note: {lacks}")
        for problem in registry.broken.values():
            self.stderr.write(f"warning: not loaded: {problem.partition(chr(10))[0]}")
        recorder = PageRecorder(
            settings.CRAWLFRAME,
            named,
            parse_pairs(options["arguments"]),
            directory=options["output"],
            identity=identity,
            pick=pool_here(),
            say=lambda text: self.stdout.write(plain(text)),
        )
        made = recorder.record(options["pages"])
        folder = made.recording.directory
        self.stdout.write("Look at the files before you commit them: pages may hold personal data.")
        self.stdout.write(f"Test them: python -m pytest {_plugin()}{folder}")
        self.stdout.write(f"Record again: {command(f'spider record {named.kind.name}')}")


def _plugin() -> str:
    """The option without which pytest does not know recorded pages: in a checkout that is not
    installed, nothing else names the plug-in."""
    known = any(one.value == PLUGIN for one in entry_points(group="pytest11"))
    return "" if known else f"-p {PLUGIN} "


def _pages(text: str) -> int:
    try:
        pages = int(text)
    except ValueError:
        pages = 0
    if not 1 <= pages <= MAX_PAGES:
        raise ArgumentTypeError(f"{text!r} must be a number of pages from 1 to {MAX_PAGES}")
    return pages


class NotRecorded(CrawlframeError):
    """Nothing was recorded; earlier recordings are unchanged."""


@dataclass
class PageRecorder:
    """``arguments`` are text, as typed; without any, an earlier recording's are used. ``pause``:
    seconds between two requests to one host, for a spider with the delay "auto"."""

    settings: Settings
    named: NamedSpider
    arguments: dict[str, str] = field(default_factory=dict)
    directory: Path | None = None
    identity: Identity | None = None
    pick: Callable[[str], ChosenProxy | None] = lambda choice: None
    say: Callable[[str], None] = print
    pause = PAUSE  # no field: of all recorders

    def record(self, pages: int) -> Made:
        """Returns the recording, which is written. Raises NotRecorded, ArgumentError,
        RecordingError if an earlier one is damaged, and OSError."""
        kind = self.named.kind
        directory = self.directory or recordings_of(self.settings) / kind.name
        before = self._earlier(directory)
        arguments = self._checked(before)
        visits = self._visits(arguments, pages)
        ignore = before.head.ignore if before is not None else ()
        made = make(directory, kind, arguments, visits, self.settings, ignore)
        pages_seen = [one for one in visits if one.request is not None]
        if not any(one.result is not None and one.result.end == "done" for one in pages_seen):
            raise NotRecorded(
                "no page was fetched well, so nothing is recorded: "
                + "; ".join(_outcome(one) for one in visits[:MAX_DIFFERENCES])
            )
        if not made.recording.pages.keys() - {START}:
            raise NotRecorded(
                "no page leads to the same when it is replayed, so nothing is recorded: "
                + "; ".join(f"{one.url}: {one.why}" for one in made.refused[:MAX_DIFFERENCES])
            )
        made.recording.write()
        self._report(made, before)
        return made

    def _earlier(self, directory: Path) -> Recording | None:
        """The recording that is there; None if there is nothing. Raises NotRecorded."""
        if (directory / HEAD).exists():
            before = Recording.read(directory)
            if (spider := before.head.spider) != (name := self.named.kind.name):
                raise NotRecorded(
                    f"{directory} has the recorded pages of the spider {spider}, not of {name}; "
                    f"name another folder with --output, or, if {spider} was renamed, change "
                    f"its name in {HEAD}"
                )
            return before
        known = files_in(directory)
        for path in sorted(directory.iterdir()) if directory.exists() else ():
            if path.name not in known and not path.name.startswith("."):
                raise NotRecorded(
                    f"{directory} has other files, such as {path.name}; recorded pages need a "
                    "folder of their own: name one with --output"
                )
        return None

    def _visits(self, arguments: dict[str, Any], pages: int) -> list[RecordedVisit]:
        kind = self.named.kind
        agent = read_settings(kind).user_agent or ""
        with tempfile.TemporaryDirectory(prefix="crawlframe-record-") as files:
            recorder = Recorder(
                kind,
                arguments,
                replace(self.settings, files=files, cache=""),
                identity=self.identity,
                pick=self.pick,
                check=lambda fetch: PageRobots(self.settings, fetch, agent),
                seen=lambda visit: self.say(_outcome(visit)),
                pause=self.pause,
            )
            return recorder.run(pages)

    def _checked(self, before: Recording | None) -> dict[str, Any]:
        """The arguments of the task. Secrets of an earlier recording are asked for."""
        info = self.named.info
        typed = with_secrets(info, self.arguments)
        if not self.arguments and before is not None:
            known = before.head.arguments
            secret = [name for name, value in known.items() if _is_stripped(value)]
            for name in known.keys() - secret:
                if _has_stripped(known[name]):
                    raise NotRecorded(
                        f"the argument {name!r} has secrets, which are not recorded; give all "
                        "arguments again with -a"
                    )
            plain = {name: value for name, value in known.items() if name not in secret}
            asked = {name: read_secret(f"{name}: ") for name in secret}
            return spider_arguments.check(info, plain | asked, from_text=False, any_file=True)
        return spider_arguments.check(info, typed, from_text=True, any_file=True)

    def _report(self, made: Made, before: Recording | None) -> None:
        recording = made.recording
        for name, words in made.raised.items():
            self.say(f"raised: {name}: {words}")
        for one in made.refused:
            self.say(f"not recorded: {one.url}: {one.why}")
        for part in made.ignored:
            self.say(f"not compared, because it changes from run to run: {part}")
        if made.stripped:
            self.say(f"stripped: {', '.join(made.stripped)}")
        if before is not None:
            for line in changes(before, recording):
                self.say(line)
        self.say(f"wrote {len(recording.pages)} pages to {recording.directory}")


def changes(before: Recording, now: Recording) -> list[str]:
    """Returns the differences between two recordings of one spider, page by page."""
    lines = []
    for name in dict.fromkeys([*before.pages, *now.pages]):
        if name not in now.pages:
            lines.append(f"gone: {name} ({before.pages[name].url})")
        elif name not in before.pages:
            lines.append(f"new: {name} ({now.pages[name].url})")
        else:
            found = differences(before.results[name], now.results[name], now.head.ignore)
            lines += [f"changed: {name}: {one}" for one in found[:MAX_DIFFERENCES]]
            if len(found) > MAX_DIFFERENCES:
                lines.append(f"changed: {name}: and {len(found) - MAX_DIFFERENCES} more")
    return lines or ["the results are the same as before"]


def _outcome(visit: RecordedVisit) -> str:
    """The outcome of a visit, in a line."""
    if visit.refused:
        return f"{visit.url}: not recorded: {visit.refused}"
    if visit.raised is not None:
        return f"{visit.url}: raised {type(visit.raised).__name__}: {visit.raised}"
    assert visit.result is not None
    result = visit.result
    ended = f"{result.reason}, " if result.end != "done" else ""
    return f"{visit.url}: {ended}items: {len(result.items):,}, requests: {len(result.requests):,}"


def _is_stripped(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(STRIPPED)


def _has_stripped(value: Any) -> bool:
    """Whether a part of an argument was stripped."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return _is_stripped(value) or any(map(_has_stripped, parts))


def _ended(spider: SpiderNow, column: str) -> Any:
    """A value of the last task, if that has ended."""
    last = spider.last
    return getattr(last, column) if last is not None and last.finished_at is not None else None


class ListSpiders(JsonCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        found = overview()
        if not found.complete:
            self.stderr.write("Redis does not answer: which spiders nodes publish is unknown")
        known = {True: "published", False: "not published" if found.complete else "?"}
        listing = Listing[SpiderNow](
            "spiders",
            {
                "spider": lambda spider: spider.name,
                "last task": _last,
                "ended": lambda spider: _ended(spider, "finished_at"),
                "items": lambda spider: _ended(spider, "items"),
                "errors": lambda spider: _ended(spider, "errors"),
                "code": lambda spider: known[spider.info is not None],
            },
            "no spiders; start a node",
            described=_described,
        )
        self.show_list(listing, found.found, options["json"])
        for spider in found.found:
            if spider.disabled and not options["json"]:
                self.stdout.write(plain(f"{spider.name} is disabled: {spider.disabled.reason}"))


class ShowSpider(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_name(parser)
        add_json(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        spider = _found(options["name"])
        told = _described(spider)
        if options["json"]:
            self.show_json(told)
            return
        facts = [("spider", spider.name), ("code", "published" if spider.info else "not published")]
        if spider.info:
            facts += [("about", spider.info.doc), ("arguments", "\n".join(signature(spider.info)))]
            facts.append(("settings", settings_of(spider.info)))
            facts += [("owners", ", ".join(spider.info.owners))] * bool(spider.info.owners)
        if spider.disabled:
            facts.append(("disabled", spider.disabled.reason))
        facts.append(("last task", str(_last(spider))))
        self.console.print(facts_table((name, value or "-") for name, value in facts))


class DisableSpider(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_name(parser)
        parser.add_argument("reason", help="why, for users that want to start it")

    def handle(self, *args: Any, **options: Any) -> None:
        name = _found(options["name"]).name
        spider_switch.disable(name, options["reason"], WHO)
        told = f"spider {name} is disabled; its running tasks continue"
        self.done(plain(told), f"spider enable {name}")


class EnableSpider(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        _add_name(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        name = _found(options["name"]).name
        if spider_switch.enable(name, WHO):
            self.done(plain(f"spider {name} is enabled"), f"spider disable {name} REASON")
        else:
            self.stdout.write(plain(f"spider {name} was not disabled"))


class Command(Noun):
    verbs = {
        "list": ListSpiders,
        "show": ShowSpider,
        "disable": DisableSpider,
        "enable": EnableSpider,
        "record": RecordPages,
    }


def _add_name(parser: ArgumentParser) -> None:
    parser.add_argument("name", help="the spider's name")


def _found(name: str) -> SpiderNow:
    """Raises CommandError."""
    if (spider := look_up(name)) is None:
        raise CommandError(f"no spider {name!r} was ever published or submitted")
    return spider


def _last(spider: SpiderNow) -> Text:
    last = spider.last
    return Text("never") if last is None else Text.assemble(f"{last.pk} ", status(last))


def _described(spider: SpiderNow) -> dict[str, Any]:
    """The form of the API."""
    from crawlservice.api.spiders.spiders import serialized  # with ninja, slow to import

    published = spider.info is not None
    found = serialized(spider.name, spider.info, published, spider.disabled, spider.last)
    return found.model_dump(mode="json")
