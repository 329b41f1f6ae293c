"""alert: cases and problems that need a person now; targets and the default rule."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from crawlframe.base.program import command
from crawlservice.accounts.journal import record
from crawlservice.alerts import channels, rule_fields, state, wording
from crawlservice.cases import decisions
from crawlservice.cases.wording import described, owners_of, proof_of, proposals_of, sentence_of
from crawlservice.cli.command import JsonCommand, ServiceCommand, add_dry_run
from crawlservice.cli.listing import Listing, attributes, facts_table, plain
from crawlservice.cli.noun import Noun
from crawlservice.cli.secret_input import read_secret
from crawlservice.connections import clock
from crawlservice.connections.lookup import find
from crawlservice.models import OPEN, Alert, AlertRule, AlertTarget, Case, Severity, Webhook

MAX_ALERTS = 200  # alerts
WHO: dict[str, Any] = {"command": True}
ALERTS = Listing[Alert](
    "alerts",
    {
        **attributes("id=pk"),
        "severity": lambda alert: str(Severity(alert.severity).label),
        "state": lambda alert: state.word(alert, clock.now()),
        **attributes("since"),
        "what": wording.sentence,
    },
    "All is well.",
    folded=("what",),
)


class ListAlerts(JsonCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        rows = Alert.objects.filter(OPEN).order_by("-severity", "since", "pk")
        self.show_list(ALERTS, [*rows[:MAX_ALERTS]], options["json"])
        if options["json"]:
            return
        checked = state.checked_at()
        told = f"{checked:%Y-%m-%d %H:%M:%S} UTC" if checked else "never: no node has run"
        self.stdout.write(f"checked: {told}")


class AcknowledgeAlerts(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("numbers", nargs="+", type=int, metavar="NUMBER")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        alerts = [state.get_open(number) for number in options["numbers"]]
        told = "; ".join(f"{alert.pk} {wording.sentence(alert)}" for alert in alerts)
        if self.only_shows(options, plain(f"acknowledge {told}")):
            return
        done = state.acknowledge(options["numbers"], WHO)
        by_hand = "reopen them in the admin, under Alerts"
        self.done(f"alerts acknowledged: {done}", None, by_hand=by_hand)


CASES = Listing[Case](
    "cases",
    {
        **attributes("id=pk", "cause", "state", "since"),
        "what": sentence_of,
    },
    "No case is open.",
    folded=("what",),
    described=described,
)


class Cases(JsonCommand):
    help = (
        "Lists the causes of bad runs that have not ended. With a number, shows one with its "
        "proof and examples, acknowledges or closes it."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("number", nargs="?", type=int, metavar="NUMBER")
        decision = parser.add_mutually_exclusive_group()
        decision.add_argument("--ack", action="store_true", help="acknowledge it")
        decision.add_argument("--close", action="store_true", help="end it")

    def handle(self, *args: Any, **options: Any) -> None:
        number = options["number"]
        if number is None:
            if options["ack"] or options["close"]:
                raise CommandError("name the case: its number is in the list without options")
            rows = decisions.live_first().prefetch_related("spiders")[:MAX_ALERTS]
            self.show_list(CASES, [*rows], options["json"])
        elif options["ack"] or options["close"]:
            case = decisions.get_live(number)
            act = decisions.acknowledge if options["ack"] else decisions.close
            act([case.pk], WHO)
            verb = "acknowledged" if options["ack"] else "closed"
            self.done(plain(f"case {case.pk} {verb}: {sentence_of(case)}"), None)
        elif options["json"]:
            self.show_json(described(decisions.get(number)))
        else:
            self._show(decisions.get(number))

    def _show(self, case: Case) -> None:
        owners = ", ".join(owners_of(case))
        facts = [
            ("case", f"{case.pk}, {case.state}"),
            ("cause", sentence_of(case)),
            ("to blame", str(case.get_blame_display())),
            ("proof", "\n".join(proof_of(case))),
            ("since", f"{case.since:%Y-%m-%d %H:%M:%S} UTC, task {case.first_task}"),
            ("first bad page", case.first_url),
            ("owner", owners),
        ]
        for one in case.examples:
            was, now = (repr(one[name]) if one[name] else "nothing" for name in ("old", "new"))
            facts.append((one["field"] or "page", f"{was} -> {now}\n{one['url']}"))
        for one in proposals_of(case):
            line = f"{one['line'] or one['code']}\nright on {one['right']} of {one['of']} pages"
            facts.append((f"proposal for {one['field']}", line))
        self.console.print(facts_table((name, value or "-") for name, value in facts))


class MakeTarget(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        kind = parser.add_mutually_exclusive_group(required=True)
        kind.add_argument("--mail", metavar="ADDRESSES", help="separated by commas")
        kind.add_argument(
            "--service", action="store_true", help="its URL is asked for, or read from stdin"
        )
        kind.add_argument("--webhook", metavar="NAME", help="of a webhook")

    def handle(self, *args: Any, **options: Any) -> None:
        kinds, webhook = AlertTarget.Kind, None
        if options["mail"]:
            kind, address = kinds.MAIL, options["mail"]
        elif options["service"]:
            kind, address = kinds.SERVICE, read_secret("URL: ")
        else:
            kind, address = kinds.WEBHOOK, ""
            webhook = find(Webhook.objects.all(), "webhook", options["webhook"], column="name")
        target = channels.new_target(options["name"], kind, address, webhook)
        record("add_alerttarget", name=target.name, id=target.pk, **WHO)
        told = f"{target.name}: {target.shown}; to test it: {command(f'alert test {target.name}')}"
        self.done(told, None, by_hand="delete it in the admin, under Alerts, Alert targets")


class TestTarget(ServiceCommand):
    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        # Imported here: nothing else in the command sends.
        from crawlservice.alerts.outbox import test

        target = find(AlertTarget.objects.all(), "target", options["name"], column="name")
        problem, reply = test(target)
        record("test alert target", target=target.name, problem=problem, **WHO)
        if problem:
            raise CommandError(f"{target.name}: {problem}")
        self.stdout.write(f"{target.name} accepted the test: {reply or '-'}")


class MakeDefaultRule(ServiceCommand):
    def handle(self, *args: Any, **options: Any) -> None:
        targets = [*AlertTarget.objects.filter(enabled=True)]
        if not targets:
            raise CommandError(f"there is no target; make one: {command('alert target NAME …')}")
        known = AlertRule.objects.filter(name=rule_fields.DEFAULT).exists()
        rule = rule_fields.make_default(targets)
        names = [target.name for target in targets]
        verb = "change_alertrule" if known else "add_alertrule"
        record(verb, name=rule.name, id=rule.pk, targets=names, **WHO)
        told = f"the rule {rule.name!r} reports to {', '.join(names)}"
        self.done(told, None, by_hand="delete it in the admin, under Alerts, Alert rules")


class Command(Noun):
    verbs = {
        "list": ListAlerts,
        "ack": AcknowledgeAlerts,
        "cases": Cases,
        "target": MakeTarget,
        "test": TestTarget,
        "default": MakeDefaultRule,
    }
