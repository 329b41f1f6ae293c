"""The standard job on a small site: real servers, our node and the bare limit; wrong rows and
contenders that fail are named."""

from __future__ import annotations

import json
import platform
import re
import sys
from decimal import Decimal

import pytest

from benchmarks.lab.nginx import find_program
from benchmarks.standard import __main__ as command
from benchmarks.standard import report, runs, stored
from benchmarks.standard.entries import ENTRIES, chosen, in_turn
from benchmarks.standard.figures import figures, goals
from benchmarks.standard.rounds import Rounds
from benchmarks.standard.runs import Bench, Result
from benchmarks.standard.site import FEWEST, Site

SITE = Site(FEWEST, "http://127.0.0.1:8000/")
ROWS = list(SITE.rows())


def test_the_right_rows_are_right_in_any_order():
    stored.compare([*reversed(ROWS)], SITE)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (ROWS[:-1], f"1 of {FEWEST} pages are not stored, such as {ROWS[-1].url}"),
        ([*ROWS, ROWS[3]], f"1 pages are stored more than once, such as {ROWS[3].url}"),
        ([*ROWS, ROWS[3]._replace(url="x")], "1 rows are of no page of the site, such as x"),
    ],
)
def test_missing_repeated_and_strange_rows_are_named(found, words):
    with pytest.raises(stored.Wrong, match=words):
        stored.compare(found, SITE)


@pytest.mark.parametrize(
    ("field", "value"),
    [("title", None), ("h1", "other"), ("price", Decimal("0.5")), ("price", "1.00"),
     ("price", None), ("date", "2000-01-01"), ("author", ""), ("links", 24.5)],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_page(field, value):
    rows = [*ROWS]
    rows[9] = rows[9]._replace(**{field: value})
    with pytest.raises(
        stored.Wrong, match=rf"/p/9\.html: {field} is stored as {re.escape(repr(value))}, the page"
    ):
        stored.compare(rows, SITE)


def result(label, cpu, seconds):
    return Result(label, 1000, seconds, cpu, None, 0.1, 0.2, 50 << 20, 60 << 20, "")


def test_ratios_are_those_within_a_round_with_as_many_processes():
    entries = chosen(["crawlframe", "scrapy-redis", "bare"], [1, 2])
    assert [one.label for one in entries] == [
        "crawlframe x1", "crawlframe x2", "scrapy-redis x1", "scrapy-redis x2", "bare",
    ]  # fmt: skip
    rounds = [
        {one.label: one for one in (
            result("crawlframe x1", 0.4 * slow, 1 * slow),
            result("crawlframe x2", 0.5 * slow, 0.5 * slow),
            result("scrapy-redis x1", ratio * 0.4 * slow, 12 * slow),
            result("scrapy-redis x2", ratio * 0.5 * slow, 7 * slow),
            result("bare", 0.2 * slow, 0.5 * slow),
        )}
        for slow, ratio in ((1, 20), (2, 18), (3, 19))
    ]  # fmt: skip
    found = {one.entry.label: one for one in figures(rounds, entries)}
    assert found["scrapy-redis x1"].more_cpu == pytest.approx((19, 18, 20))
    assert found["scrapy-redis x2"].more_cpu == pytest.approx((19, 18, 20))
    assert found["scrapy-redis x2"].slower == pytest.approx((14, 14, 14))
    assert found["crawlframe x1"].cpu == pytest.approx((0.8, 0.4, 1.2))
    assert found["crawlframe x1"].rate == pytest.approx((500, 1000 / 3, 1000))
    judged = {goal.what: goal for goal in goals(list(found.values()), rounds)}
    assert not judged["CPU ms per page, crawlframe x1"].met
    assert judged["times our CPU per page, scrapy-redis x1"].met
    assert judged["our CPU per page, times the bare limit's"].value.median == pytest.approx(2)
    assert not judged["our CPU per page, times the bare limit's"].met
    assert judged["times our wall time, scrapy-redis x2"].met


def test_no_entry_is_always_first():
    entries = chosen([entry.name for entry in ENTRIES], [1])
    orders = [in_turn(entries, number, 3) for number in range(3)]
    assert len({order[0] for order in orders}) == 3
    assert all(sorted(order) == sorted(entries) for order in orders)


def test_the_answer_of_a_contender_is_found_among_its_other_words():
    text = 'x\n{"pages": 3, "seconds": 1.5}\n{"level": "info"}\n{broken\nbye\n'
    assert runs.last_answer(text) == {"pages": 3, "seconds": 1.5}
    assert runs.last_answer("no answer\n") is None


def has_nginx():
    try:
        return bool(find_program())
    except FileNotFoundError:
        return False


needs_nginx = pytest.mark.skipif(not has_nginx(), reason="needs nginx")


@pytest.fixture
def contender(monkeypatch, tmp_path):
    """``contender(text)`` puts a program in the place of the bare limit."""

    def write(text):
        (tmp_path / "bare").mkdir(exist_ok=True)
        (tmp_path / "bare" / "run.py").write_text(text)
        monkeypatch.setattr("benchmarks.standard.entries.CONTENDERS", tmp_path)

    return write


def entry(name):
    return chosen([name], [1])[0]


@needs_nginx
@pytest.mark.process
@pytest.mark.postgres
@pytest.mark.usefixtures("contender")
def test_our_node_and_the_bare_limit_do_the_whole_job(tmp_path):
    with Bench(FEWEST, tmp_path) as bench:
        for name in ("crawlframe", "bare"):
            got = bench.run(entry(name), bench.site)
            assert got.pages == FEWEST
            assert got.cpu > 0
            assert got.peak > 10 << 20
            assert got.redis > 0
            assert got.postgres >= 0  # the kernel counts in steps of 10 ms


LIAR = """
import json, psycopg2, sys
database = sys.argv[sys.argv.index("--database") + 1]
with psycopg2.connect(database) as connection:
    connection.cursor().execute("INSERT INTO row VALUES ('http://example.com/')")
print(json.dumps({"pages": 64, "seconds": 0.001}))
"""


BROKEN = [
    (LIAR, "1 rows are of no page of the site, such as http://example.com/"),
    ("print('{}')", "did not say how it went"),
    ('print(\'{"pages": 64, "seconds": 1e6}\')', "64 of 64 pages in 1000000.0 s, and"),
    ('print(\'{"pages": 63, "seconds": 1e-6}\')', "it stored 63 of 64 pages"),
    ("1 / 0", "(?s)ended with status 1; the end of its log:\n.*ZeroDivisionError"),
]


@needs_nginx
@pytest.mark.process
@pytest.mark.postgres
def test_what_a_contender_does_wrong_is_named(contender, tmp_path):
    with Bench(FEWEST, tmp_path) as bench:
        for program, words in BROKEN:
            contender(program)
            with pytest.raises(runs.Failed, match=words):
                bench.run(entry("bare"), bench.site)


@needs_nginx
@pytest.mark.process
@pytest.mark.postgres
def test_a_contender_that_fails_makes_the_command_fail(contender, monkeypatch, tmp_path, capfd):
    contender("1 / 0")
    output = tmp_path / "figures.json"
    words = ("", "--only", "bare", "--pages", str(FEWEST), "--output", str(output))
    monkeypatch.setattr(sys, "argv", [*words])
    assert command.main() == 1
    told = json.loads(output.read_text())
    assert len(told["failures"]) == 1  # in the warm-up, so it takes no further part
    assert "standard: FAILED bare in warm-up: " in capfd.readouterr().err


@needs_nginx
@pytest.mark.process
@pytest.mark.postgres
@pytest.mark.usefixtures("contender")
def test_the_others_go_on_and_are_reported(tmp_path, capsys):
    lost = entry("bare")._replace(name="lost", options=("--client", "none-such"))
    rounds = Rounds(FEWEST, [lost, entry("bare")], tmp_path)
    rounds.run(2)
    assert len(rounds.failures) == 1
    assert "lost in warm-up" in rounds.failures[0]
    assert "unrecognized arguments: --client none-such" in rounds.failures[0]
    assert [set(one) for one in rounds.done] == [{"bare"}, {"bare"}]
    report.write_text(rounds)
    text = capsys.readouterr().out
    assert re.search(r"^bare +\d\.\d{3} \(\d\.\d{3}-\d\.\d{3}\)", text, re.MULTILINE)
    assert "bare: pycurl, Lexbor" in text
    assert f"Python {platform.python_version()}" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only", "scrapy,bear"], "there is no bear; there are crawlframe,"),
        (["--pages", "3"], "--pages must be 64 or more"),
        (["--rounds", "-1"], "--rounds and --workers must be 1 or more"),
        (["--workers", "0"], "--rounds and --workers must be 1 or more"),
        (["--workers", "two"], "--workers"),
    ],
)
def test_bad_words_are_refused(words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["", *words])
    with pytest.raises(SystemExit):
        command.main()
    assert message in capsys.readouterr().err
