"""Words, verbs and help of the commands; JSON; exit codes; completion."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class
from rich.console import Console

from crawlframe.frontier import Frontier
from crawlservice.cli import dispatch
from crawlservice.cli.command import ServiceCommand
from crawlservice.cli.exit_code import ExitCode
from crawlservice.cli.grammar import GROUPS, VERBS, WORDS
from crawlservice.cli.listing import Listing
from crawlservice.cli.noun import Noun
from crawlservice.cli.shells import completion
from crawlservice.cli.utility import Utility
from tests.command_lines import parser_of, problem_of
from tests.test_rooms import CHECKOUT

SHOWS = ("list", "show", "keys", "quarantine")
READS = {
    *SHOWS, "check", "audit", "check-files", "cache", "export", "layers", "record", "test",
    "setup-link",
}  # fmt: skip
# Verbs that change more than one thing; reparse shows what differs by a task.
MANY = {
    "task": {"retry", "prune"}, "proxy": {"import", "delete"}, "node": {"rollout"},
    "alert": {"ack"}, "alias": {"revoke", "forget"},
    "store": {"take-over", "new-id", "reconcile", "reseal", "clear-quarantine", "prune-files",
              "clear-cache"},
}  # fmt: skip


def verbs() -> Iterator[tuple[str, str, type[ServiceCommand]]]:
    for noun in VERBS:
        command = load_command_class(get_commands()[noun], noun)
        assert isinstance(command, Noun)
        assert [*command.verbs] == [*VERBS[noun]] or {*command.verbs} == {*VERBS[noun]}
        for verb in command.verbs:
            yield noun, verb, type(command.of_verb(verb))


def test_help_groups_26_words() -> None:
    assert len(WORDS) <= 26
    text = Utility(["crawlframe"]).main_help_text()
    ours, _, others = text.partition("\nDjango and other packages\n")
    assert re.findall(r"^  (\S+)", ours, re.MULTILINE) == [*WORDS]
    assert re.findall(r"^([A-Z]\w+)$", ours, re.MULTILINE) == [*GROUPS]
    assert "migrate" in others
    assert {*get_commands()} >= {*WORDS}


def test_each_verb_has_a_line_and_each_list_json() -> None:
    for noun, verb, _ in verbs():
        parser = parser_of(noun)
        assert parser is not None
        assert VERBS[noun][verb] in " ".join(parser.format_help().split())
        if verb in SHOWS:
            assert problem_of([noun, verb, "--json"]) == ""


def test_each_change_says_how_to_undo_it_and_many_are_shown_before() -> None:
    for noun, verb, kind in verbs():
        if verb not in READS:
            bases = {*kind.__mro__[:2]} - {ServiceCommand}
            source = "".join(map(inspect.getsource, bases))
            assert "self.done(" in source, f"{noun} {verb}"
            assert "Undo" not in source, f"{noun} {verb}: done says it"
            assert ("self.only_shows(" in source) == (verb in MANY.get(noun, ())), f"{noun} {verb}"
            assert (problem_of([noun, verb, "--dry-run"]) == "") == (
                verb in MANY.get(noun, ()) or verb == "reparse"
            )


def test_wrong_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], service: Frontier
) -> None:
    def typed(*words: str) -> tuple[object, str, str]:
        monkeypatch.setattr("sys.argv", ["manage.py", *words])
        code: object = ExitCode.DONE
        try:
            dispatch.run()
        except SystemExit as ended:
            code = ended.code
        return (code, *capsys.readouterr())

    for words, told in (
        (["tsak"], "did you mean task?"),
        (["task", "lits"], "did you mean list?"),
        (["task", "show"], "required: id"),
        (["task", "list", "--jsn"], "--jsn"),
    ):
        code, _, problem = typed(*words)
        assert (code, told in problem) == (ExitCode.USAGE, True), problem
    code, shown, _ = typed("host")
    assert (code, "forget-robots" in shown) == (ExitCode.DONE, True)


def test_the_table_of_exit_codes_is_complete() -> None:
    page = (CHECKOUT / "docs/reference/commands.md").read_text()
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.M)} == {*ExitCode}


LISTING = Listing[tuple[str, int]](
    "hosts",
    {"host": lambda row: row[0], "pages": lambda row: row[1], "last seen": lambda row: "x" * 40},
    "no hosts",
    folded=("host",),
)


@pytest.mark.parametrize(("width", "head"), [(80, "host pages last seen"), (50, "host pages")])
def test_a_table_fits_the_terminal(width: int, head: str) -> None:
    out = StringIO()
    LISTING.show([("a.example", 12345)], Console(file=out, width=width))
    first, row, *rest = out.getvalue().splitlines()
    assert " ".join(first.split()) == head
    assert "12,345" in row
    assert ["too narrow for: last seen; --json has all"] * (width == 50) == rest
    assert LISTING.as_json([("a", 1)]) == {
        "hosts": [{"host": "a", "pages": 1, "last_seen": "x" * 40}]
    }


def test_names_are_completed_from_the_last_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(CHECKOUT / "manage.py")])
    monkeypatch.setattr(
        "crawlservice.cli.shells.completion.subprocess.Popen",
        lambda words, **_: started.append(words),
    )
    assert completion.names_of("hosts") == {}
    path = completion.cache_of(CHECKOUT)
    assert started == [[sys.executable, "-m", completion.COLLECTOR, str(path)]]
    path.write_text(json.dumps({"hosts": {"a.example": "host"}}))
    assert completion.names_of("hosts") == {"a.example": "host"}
    assert len(started) == 1
    old = time.time() - completion.MAX_AGE
    os.utime(path, (old, old))
    assert completion.names_of("spiders") == {}
    assert len(started) == 2


# Each line in a fork, as completion ends its process.
COMPLETE = """import json, os, sys, crawlservice.cli.program as program
import crawlservice.cli.shells.completion
assert "django" not in sys.modules
sys.argv[:] = ["manage.py"]
for number, line in enumerate(json.loads(os.environ["LINES_TO_COMPLETE"])):
    if not os.fork():
        os.environ["COMP_LINE"], os.environ["COMP_POINT"] = line, str(len(line))
        os.environ["_ARGCOMPLETE_STDOUT_FILENAME"] = f"out{number}"
        program.main()
    os.wait()"""


@pytest.mark.forks
def test_a_shell_completes_words_and_verbs(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    expected = {
        "manage.py ta": ["task"],
        "manage.py host p": ["pause"],
        "manage.py store clear-": ["clear-quarantine", "clear-cache"],
        "manage.py task show ": ["7"],
        "manage.py task export -o ": [],
    }
    env = {
        **os.environ, "LINES_TO_COMPLETE": json.dumps([*expected]), "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n", "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": str(CHECKOUT),
    }  # fmt: skip
    (tmp_path / "manage.py").touch()
    folder = tmp_path / "crawlframe"
    folder.mkdir()
    path = folder / completion.cache_of(tmp_path).name
    path.write_text(json.dumps({"tasks": {"7": "shop, running"}}))
    subprocess.run([sys.executable, "-c", COMPLETE], env=env, cwd=tmp_path, check=True)
    for number, found in enumerate(expected.values()):
        assert (tmp_path / f"out{number}").read_text().split() == found
