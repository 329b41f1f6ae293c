"""alerts: what needs somebody now; targets and the default rule."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from rich.table import Table

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.alerts import rule_fields, state, wording
from crawlservice.cli.command import Command as ServiceCommand
from crawlservice.cli.secret_input import read_secret
from crawlservice.cli.terminal import plain
from crawlservice.connections import clock
from crawlservice.models import OPEN, Alert, AlertRule, AlertTarget, Severity, Webhook

MAX_ALERTS = 200  # alerts
WHO: dict[str, Any] = {"command": True}


class Command(ServiceCommand):
    help = "Lists open alerts, acknowledges them, and makes targets and the default rule."

    def add_arguments(self, parser: ArgumentParser) -> None:
        what = parser.add_subparsers(
            dest="what", required=True, metavar="list | ack | target | test | default"
        )
        what.add_parser("list", help="list open alerts")
        ack = what.add_parser("ack", help="acknowledge alerts")
        ack.add_argument("numbers", nargs="+", type=int, metavar="NUMBER")
        target = what.add_parser("target", help="make a target")
        target.add_argument("name")
        kind = target.add_mutually_exclusive_group(required=True)
        kind.add_argument("--mail", metavar="ADDRESSES", help="separated by commas")
        kind.add_argument(
            "--service", action="store_true", help="its URL is asked for, or read from stdin"
        )
        kind.add_argument("--webhook", metavar="NAME", help="of a webhook")
        test = what.add_parser("test", help="send a test message to a target")
        test.add_argument("name")
        what.add_parser("default", help="make the rule that reports everything to all targets")

    def handle(self, *args: Any, **options: Any) -> None:
        {
            "list": self._list,
            "ack": self._acknowledge,
            "target": self._make_target,
            "test": self._test,
            "default": self._default,
        }[options["what"]](options)

    def _list(self, options: dict[str, Any]) -> None:
        now = clock.now()
        table = Table("alert", "severity", "state", "since", "what", box=None, pad_edge=False)
        rows = Alert.objects.filter(OPEN).order_by("-severity", "since", "pk")
        found = [*rows[:MAX_ALERTS]]
        for alert in found:
            table.add_row(
                str(alert.pk),
                str(Severity(alert.severity).label),
                state.word(alert, now),
                f"{alert.since:%Y-%m-%d %H:%M}",
                plain(wording.sentence(alert)),
            )
        if found:
            self.console.print(table)
        else:
            self.stdout.write("All is well.")
        checked = state.checked_at()
        told = f"{checked:%Y-%m-%d %H:%M:%S} UTC" if checked else "never: no node has run"
        self.stdout.write(f"checked: {told}")

    def _acknowledge(self, options: dict[str, Any]) -> None:
        for number in options["numbers"]:
            state.get_open(number)
        done = state.acknowledge(options["numbers"], WHO)
        self.stdout.write(f"alerts acknowledged: {done}")

    def _make_target(self, options: dict[str, Any]) -> None:
        kinds, webhook = AlertTarget.Kind, None
        if options["mail"]:
            kind, address = kinds.MAIL, options["mail"]
        elif options["service"]:
            kind, address = kinds.SERVICE, read_secret("URL: ")
        else:
            kind, address = kinds.WEBHOOK, ""
            webhook = Webhook.objects.filter(name=options["webhook"]).first()
            if webhook is None:
                raise CommandError(f"there is no webhook {options['webhook']}")
        target = rule_fields.new_target(options["name"], kind, address, webhook)
        record("add_alerttarget", name=target.name, id=target.pk, **WHO)
        self.stdout.write(
            f"{target.name}: {target.shown}; to test it: {command(f'alerts test {target.name}')}"
        )

    def _test(self, options: dict[str, Any]) -> None:
        # Imported here: nothing else in the command sends.
        from crawlservice.alerts.outbox import test

        target = AlertTarget.objects.filter(name=options["name"]).first()
        if target is None:
            raise CommandError(f"there is no target {options['name']}")
        problem, reply = test(target)
        record("test alert target", target=target.name, problem=problem, **WHO)
        if problem:
            raise CommandError(f"{target.name}: {problem}")
        self.stdout.write(f"{target.name} accepted the test: {reply or '-'}")

    def _default(self, options: dict[str, Any]) -> None:
        targets = [*AlertTarget.objects.filter(enabled=True)]
        if not targets:
            raise CommandError(f"there is no target; make one: {command('alerts target NAME …')}")
        known = AlertRule.objects.filter(name=rule_fields.DEFAULT).exists()
        rule = rule_fields.make_default(targets)
        names = [target.name for target in targets]
        verb = "change_alertrule" if known else "add_alertrule"
        record(verb, name=rule.name, id=rule.pk, targets=names, **WHO)
        self.stdout.write(f"the rule {rule.name} reports to {', '.join(names)}")
