"""Command lines of the previous release in their new form. They work for this release."""

from __future__ import annotations

from collections.abc import Sequence

from crawlservice.cli.grammar import VERBS, near

# Old form -> first words of the new one. An old form is its first words, ``ID`` for a number or
# ``NAME`` for a word that is no option, and an option that it needs: that is left out, and its
# value stays; in brackets, it stays too. The first form that fits counts.
FORMER = {
    "checkspiders": "check",
    "fromscrapy": "check --scrapy",
    "tasks": "task list",
    "task ID [--delay]": "task set",
    "task ID [--concurrency]": "task set",
    "task ID [--page-limit]": "task set",
    "task ID": "task show",
    **{verb: f"task {verb}" for verb in ("pause", "resume", "cancel", "retry", "reparse")},
    **{verb: f"task {verb}" for verb in ("prune", "layers")},
    "export ID": "task export",
    "spiders --disable": "spider disable",
    "spiders --enable": "spider enable",
    "spiders": "spider list",
    "record": "spider record",
    "schedules": "schedule list",
    "watches NAME": "watch show",
    "watches": "watch list",
    "watch ID --pause": "watch pause",
    "watch ID --resume": "watch resume",
    "watch ID --end": "watch end",
    "watch ID --visit-now": "watch visit",
    "watch ID": "watch set",
    "watch NAME": "watch start",
    "pages export": "page export",
    "page NAME": "page show",
    "exports --check": "export check",
    "exports": "export list",
    "hosts --pause": "host pause",
    "hosts --resume": "host resume",
    "hosts --clear": "host clear",
    "hosts --forget-robots": "host forget-robots",
    "hosts [--delay]": "host set",
    "hosts [--concurrency]": "host set",
    "hosts [--window]": "host set",
    "hosts NAME": "host show",
    "hosts": "host list",
    "proxies": "proxy",
    "nodes --forget": "node forget",
    "nodes --check": "node check",
    "nodes": "node list",
    "rollout": "node rollout",
    "alerts": "alert",
    "aliases": "alias",
    "installation --take-over": "store take-over",
    "installation --new-id": "store new-id",
    "installation": "store show",
    **{verb: f"store {verb}" for verb in ("audit", "reconcile", "reseal")},
    "quarantine --clear": "store clear-quarantine",
    "quarantine": "store quarantine",
    "files check": "store check-files",
    "files prune": "store prune-files",
    "cache --clear": "store clear-cache",
    "cache": "store cache",
    "botauth create": "credential create-key",
    "botauth rotate": "credential rotate-key",
    "botauth list": "credential keys",
    "botauth retire": "credential retire-key",
    "setuplink": "token setup-link",
}


def translated(words: Sequence[str]) -> list[str] | None:
    """The new form of a command line; None if it has no old one."""
    if not words or (words[1:2] and words[1] in VERBS.get(words[0], ())):
        return None
    for old, new in FORMER.items():
        if (rest := _rest(old.split(), words)) is not None:
            return [*new.split(), *rest]
    return None


def _rest(old: Sequence[str], words: Sequence[str]) -> list[str] | None:
    """The words of a line that stay; None if it has not this form."""
    rest = [*words]
    for place, part in enumerate(old):
        if "--" in part:
            option = part.strip("[]")
            found = [one for one in rest if one.partition("=")[0] == option]
            if not found:
                return None
            if part == option:
                _, equals, value = found[0].partition("=")
                at = rest.index(found[0])
                rest[at : at + 1] = [value] if equals else []
        elif not _fits(part, words[place] if place < len(words) else "", words[0]):
            return None
        elif part.islower():
            rest.remove(part)
    return rest


def _fits(part: str, word: str, noun: str) -> bool:
    if part == "ID":
        return word.isdecimal()
    if part == "NAME":  # a mistyped verb is no name
        return bool(word) and not word.startswith("-") and not near(word, [*VERBS.get(noun, ())])
    return word == part
