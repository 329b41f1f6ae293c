"""Settings: from the environment, safe by default, and documented."""

from __future__ import annotations

import ast
import json
import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from crawlframe.base.ranks import EVERYDAY, NEEDED, TUNING, ranks_of
from crawlframe.conf import Settings
from crawlframe.errors import ConfigError
from crawlframe.spider.settings import SpiderSettings
from crawlservice.connections.database_url import database_config
from crawlservice.security.secret import secret_key
from crawlservice.settings import READ
from crawlservice.web import server

CHECKOUT = Path(__file__).parent.parent.parent
SECONDS = (
    "grace", "lease", "beat", "quiet", "load_timeout", "check_timeout", "deadline", "max_age",
    "database_timeout", "max_crawl_delay",
)  # fmt: skip
RANK_OF = {"## Everyday": EVERYDAY, "## When needed": NEEDED, "## Tuning": TUNING}
VARIABLE = re.compile(r"CRAWLFRAME_[A-Z_]+|(DATABASE|REDIS)_URL")
SHOW = """
import json, sys
from crawlservice import settings
print(json.dumps({name: getattr(settings, name, None) for name in sys.argv[1:]}, default=str))
"""


def python(var: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "CRAWLFRAME_VAR_DIR": str(var), **env}
    return subprocess.run(
        [sys.executable, *words], env={"CRAWLFRAME_ENV_FILE": os.devnull, **env},
        cwd=CHECKOUT, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture
def show(tmp_path):
    """Settings as a new process sees them: ``show("DEBUG", CRAWLFRAME_DEBUG="1")``."""

    def run(*names: str, **env: str) -> dict[str, Any]:
        outcome = python(tmp_path / "var", "-c", SHOW, *names, **env)
        if outcome.returncode:
            raise ConfigError(outcome.stderr.strip().splitlines()[-1])
        shown: dict[str, Any] = json.loads(outcome.stdout)
        return shown

    return run


def test_the_defaults_are_safe(show, tmp_path):
    shown = show("DEBUG", "ALLOWED_HOSTS", "SECRET_KEY", "DATABASES", "REDIS_URL", "VAR_DIR")
    assert shown["DEBUG"] is False
    assert shown["ALLOWED_HOSTS"] == ["localhost", "127.0.0.1", "[::1]"]
    assert len(shown["SECRET_KEY"]) >= 50
    assert shown["DATABASES"]["default"]["NAME"] == str(tmp_path / "var" / "crawlframe.sqlite3")
    assert shown["REDIS_URL"] == ""
    assert shown["VAR_DIR"] == str(tmp_path / "var")


def test_the_secret_key_stays_and_is_private(show, tmp_path):
    first, second = show("SECRET_KEY"), show("SECRET_KEY")
    assert first == second
    path = tmp_path / "var" / "secret_key"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert show("SECRET_KEY", CRAWLFRAME_SECRET_KEY="mine")["SECRET_KEY"] == "mine"


def test_processes_that_start_together_agree_on_the_key(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        keys = set(pool.map(secret_key, [tmp_path / "var"] * 8))
    assert len(keys) == 1
    assert [path.name for path in (tmp_path / "var").iterdir()] == ["secret_key"]


def test_an_empty_key_is_refused(tmp_path):
    (tmp_path / "secret_key").touch()
    with pytest.raises(ConfigError, match="remove it"):
        secret_key(tmp_path)


def test_hosts_and_https_of_the_environment(show):
    shown = show(
        "ALLOWED_HOSTS",
        "CSRF_TRUSTED_ORIGINS",
        "SESSION_COOKIE_SECURE",
        "CSRF_COOKIE_SECURE",
        "SECURE_HSTS_SECONDS",
        CRAWLFRAME_ALLOWED_HOSTS="a.example, b.example",
        CRAWLFRAME_CSRF_TRUSTED_ORIGINS="https://a.example",
        CRAWLFRAME_HTTPS="1",
    )
    assert shown["ALLOWED_HOSTS"][-2:] == ["a.example", "b.example"]
    assert shown["CSRF_TRUSTED_ORIGINS"] == ["https://a.example"]
    assert shown["SESSION_COOKIE_SECURE"]
    assert shown["CSRF_COOKIE_SECURE"]
    assert shown["SECURE_HSTS_SECONDS"] > 0


WRONG = [
    ("CRAWLFRAME_DEBUG", "maybe", "CRAWLFRAME_DEBUG='maybe' must be 1 or 0"),
    ("CRAWLFRAME_WORKERS", "two", "CRAWLFRAME_WORKERS='two' must be a whole number"),
    ("CRAWLFRAME_GRACE", "long", "CRAWLFRAME_GRACE='long' must be a number"),
    ("CRAWLFRAME_ALLOW_PRIVATE", "yes", "give networks such as 127.0.0.0/8"),
    ("CRAWLFRAME_LOG_LEVEL", "loud", "CRAWLFRAME_LOG_LEVEL='loud' is none of DEBUG"),
    ("CRAWLFRAME_PROXIES", "one", "CRAWLFRAME_PROXIES='one' must be a whole number"),
    ("CRAWLFRAME_KEEP_RUNS", "4000000", "must be a whole number, 0 to 36500"),
    ("DATABASE_URL", "mysql://root:secret@host/db", "DATABASE_URL='mysql://…' cannot be used"),
    ("DATABASE_URL", "nonsense", "DATABASE_URL='nonsense' cannot be used"),
    ("DATABASE_URL", "postgresql://host", "postgresql://user:password@host:5432/name"),
    ("DATABASE_URL", "sqlite://:memory:", "sqlite:////absolute/path.sqlite3"),
    ("DATABASE_URL", "postgresql://h:port/name", "cannot be used"),
    ("CRAWLFRAME_VAR_DIR", "/dev/null/var", "cannot be kept in /dev/null/var"),
]
IMPORT = """
import json, os, sys
usual = dict(os.environ)
for variable, value in json.loads(sys.argv[1]):
    os.environ[variable] = value
    try:
        import crawlservice.settings
        print()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
    os.environ.clear()
    os.environ.update(usual)
    for name in [*sys.modules]:
        if name.startswith(("crawlframe", "crawlservice")):
            del sys.modules[name]
"""


def test_wrong_values_are_refused_in_one_line(tmp_path):
    pairs = [(variable, value) for variable, value, _ in WRONG]
    lines = python(tmp_path, "-c", IMPORT, json.dumps(pairs)).stdout.splitlines()
    for line, (*_, says) in zip(lines, WRONG, strict=True):
        assert line.startswith("ConfigError: ")
        assert says in line
        assert "secret" not in line.replace("secret key", "").replace("secret_key", "")
    wrong = {"DATABASE_URL": "mysql://root:secret@h/db"}
    outcome = python(tmp_path, "manage.py", "showmigrations", **wrong)
    assert outcome.returncode == 1
    assert outcome.stderr.startswith("error: DATABASE_URL='mysql://…' cannot be used")
    assert "secret" not in outcome.stderr
    assert outcome.stderr.count("\n") == 1


def test_sqlite_commits_reach_the_disk(tmp_path):
    options = database_config("", tmp_path, "x")["OPTIONS"]
    assert options["transaction_mode"] == "IMMEDIATE"
    assert "synchronous=FULL" in options["init_command"]


def test_postgres_options_of_the_url_win(tmp_path):
    config = database_config("postgresql://u:p%40@h:1/n?connect_timeout=3", tmp_path, "me")
    assert (config["HOST"], config["PORT"], config["PASSWORD"]) == ("h", 1, "p@")
    assert str(config["OPTIONS"]["connect_timeout"]) == "3"
    assert config["OPTIONS"]["application_name"] == "me"


def read_in_code() -> set[str]:
    """Names of environment variables that occur as text in the code."""
    names: set[str] = set()
    for package in ("crawlframe", "crawlservice"):
        for path in (CHECKOUT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and VARIABLE.fullmatch(str(node.value)):
                    names.add(str(node.value))
    return names


def page() -> dict[str, tuple[str, list[str]]]:
    """Setting -> its rank, and the cells of its row: default, unit (of variables) and meaning."""
    found: dict[str, tuple[str, list[str]]] = {}
    rank = ""
    for line in (CHECKOUT / "docs" / "settings.md").read_text().splitlines():
        if line.startswith("## "):
            rank = RANK_OF.get(line, "")
        elif line.startswith("| `"):
            names, *cells = (cell.strip(" `") for cell in line.strip("|").split(" | "))
            for name in re.findall(r"\w+", names):
                found.setdefault(name, (rank, cells))
    return found


def variables() -> dict[str, list[str]]:
    """Variable -> its default, unit and meaning, as the page lists them."""
    return {name: cells for name, (_, cells) in page().items() if name.isupper()}


def test_every_setting_is_on_the_page_below_its_rank():
    of_nodes = {f"CRAWLFRAME_{name.upper()}": rank for name, rank in ranks_of(Settings).items()}
    ranks = ranks_of(SpiderSettings) | of_nodes | {name: rank for name, (_, rank) in READ.items()}
    assert ranks == {name: rank for name, (rank, _) in page().items() if rank}
    assert [*ranks.values()].count(EVERYDAY) <= 25
    in_code = read_in_code() - {"CRAWLFRAME_EXPECT"}  # a setting of Scrapy projects
    assert {"DATABASE_URL", "REDIS_URL", "CRAWLFRAME_DEBUG", "CRAWLFRAME_HTTPS"} <= in_code
    assert in_code <= ranks.keys()


def test_the_defaults_on_the_page_are_those_of_the_code():
    told = {name: cells[0] for name, (_, cells) in page().items()}
    nodes = {f"CRAWLFRAME_{name.upper()}": value for name, value in asdict(Settings()).items()}
    service = {name: int(default) for name, (default, _) in READ.items() if default.isdecimal()}
    spiders = structs.asdict(SpiderSettings())
    for name, value in (spiders | nodes | service).items():
        given = name in ("CRAWLFRAME_WORKERS", "CRAWLFRAME_SMTP_PORT")  # by the machine, or another
        if isinstance(value, int | float) and not given:
            assert float({"true": 1, "false": 0}.get(told[name].lower(), told[name])) == value, name
    for name in ("spiders", "key_prefix", "log_level"):
        assert told[f"CRAWLFRAME_{name.upper()}"] == getattr(Settings(), name)
    assert told["CRAWLFRAME_BIND"] == server.bind
    assert int(told["CRAWLFRAME_WEB_PROCESSES"]) == server.workers
    assert int(told["CRAWLFRAME_WEB_THREADS"]) == server.threads


def test_units_stand_in_the_page_as_they_do_in_the_code():
    seconds = {f"CRAWLFRAME_{name.upper()}" for name in (*SECONDS, "session_idle", "web_deadline")}
    assert {name for name, (_, unit, _) in variables().items() if unit == "seconds"} == seconds
    assert all(unit and meaning for _, unit, meaning in variables().values())


def test_other_databases_and_the_apps_that_have_tables_there(show: Any, tmp_path: Path) -> None:
    (tmp_path / "stock").mkdir()
    (tmp_path / "stock/__init__.py").touch()
    found = show(
        "DATABASES", "APPS", "APP_DATABASES",
        CRAWLFRAME_DATABASES=f"warehouse=sqlite:///{tmp_path}/w.sqlite3 attic=postgres://u:p@h/a",
        CRAWLFRAME_APPS="json stock@warehouse",
        PYTHONPATH=str(tmp_path),
    )  # fmt: skip
    assert found["APPS"] == ["json", "stock"]
    assert found["APP_DATABASES"] == {"stock": "warehouse"}
    assert found["DATABASES"].keys() == {"default", "warehouse", "attic"}
    assert found["DATABASES"]["attic"]["OPTIONS"]["connect_timeout"] == 3


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ({"CRAWLFRAME_DATABASES": "postgresql://u:secret@h/a"}, "must have words such as"),
        ({"CRAWLFRAME_DATABASES": "default=sqlite:////x"}, "must have words such as"),
        ({"CRAWLFRAME_DATABASES": "a=oracle://u:secret@h/a"}, "a='oracle://…' cannot be used"),
        ({"CRAWLFRAME_APPS": "json@attic"}, "json@attic names none of the other databases"),
        ({"CRAWLFRAME_APPS": "json@default"}, "json@default names none of the other databases"),
    ],
)
def test_mistakes_in_other_databases_are_named(show: Any, env: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        show("DATABASES", **env)
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)
