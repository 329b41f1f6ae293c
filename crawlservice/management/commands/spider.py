"""spider: the spiders with their last runs."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from rich.text import Text

from crawlservice.cli.command import JsonCommand, ServiceCommand, add_json
from crawlservice.cli.listing import Listing
from crawlservice.cli.noun import Noun
from crawlservice.cli.spiders.check import settings_of
from crawlservice.cli.spiders.record import RecordPages
from crawlservice.cli.terminal import facts_table, plain, status
from crawlservice.tasks import spider_switch
from crawlservice.tasks.arguments.spider_arguments import signature
from crawlservice.tasks.spider_runs import SpiderNow, look_up, overview

WHO: dict[str, Any] = {"command": True}


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
