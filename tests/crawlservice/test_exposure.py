"""Exposure to the outside: DEBUG, keys that can be guessed, the var directory are refused."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from crawlservice.security.exposure import FORMER_KEYS, KEY, is_loopback, problem, refusal, weakness
from crawlservice.security.secret import private_directory
from tests.conftest import CHECKOUT

GOOD = "0123456789abcdef" * 2
SERVER, BIND = "crawlservice/web/server.py", ("--bind", "0.0.0.0:0")
DEBUG, SHOWN = {"CRAWLFRAME_DEBUG": "1"}, "CRAWLFRAME_DEBUG=1 shows code and settings"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True), ("127.8.0.1", True), ("::1", True), ("[::1]", True),
        ("localhost", True), ("/run/web.sock", True), ("0.0.0.0", False), ("::", False),
        ("192.168.1.4", False), ("example.com", False),
    ],
)  # fmt: skip
def test_which_addresses_others_reach(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_what_is_refused_at_a_public_address() -> None:
    assert "CRAWLFRAME_DEBUG=1" in problem(["127.0.0.1", "0.0.0.0"], debug=True, keys=[])
    assert "0.0.0.0" in problem(["127.0.0.1", "0.0.0.0"], debug=True, keys=[])
    assert "has 6 characters" in problem(["::"], debug=False, keys=[(KEY, "secret")])
    assert problem(["127.0.0.1"], debug=True, keys=[(KEY, "secret")]) == ""
    assert problem(["0.0.0.0"], debug=False, keys=[(KEY, GOOD)]) == ""
    assert problem(["0.0.0.0"], debug=False, keys=[]) == ""  # it is generated
    assert weakness("a" * 50) == "has only 1 different characters"


def test_what_the_environment_says() -> None:
    public = ["0.0.0.0"]
    assert refusal(public, {}) == refusal(public, {KEY: GOOD, "CRAWLFRAME_DEBUG": "0"}) == ""
    assert "DEBUG" in refusal(public, {"CRAWLFRAME_DEBUG": " Yes "})
    assert f"{KEY} has 5" in refusal(public, {KEY: "short"})
    former = refusal(public, {KEY: GOOD, FORMER_KEYS: f"{GOOD}x, short"})
    assert f"{FORMER_KEYS} has 5" in former
    assert "reseal" in former
    assert "short" not in former


def start(*words: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.usefixtures("redis_client")  # one that belongs to no database yet
@pytest.mark.parametrize(
    ("words", "env", "says"),
    [
        (["-m", "gunicorn", "-c", SERVER], {"CRAWLFRAME_BIND": "0.0.0.0:0", **DEBUG}, SHOWN),
        (["-m", "gunicorn", "-c", SERVER, *BIND], {KEY: "short"}, f"{KEY} has 5 characters"),
        (["manage.py", "up", *BIND], DEBUG, SHOWN),
    ],
)
def test_the_web_refuses_to_start_in_one_sentence(
    tmp_path: Path, redis_url: str, words: list[str], env: dict[str, str], says: str
) -> None:
    code, said = start(*words, CRAWLFRAME_VAR_DIR=str(tmp_path), REDIS_URL=redis_url, **env)
    assert code == 1
    assert says in said
    assert said.count("\n") == 1
    assert "Traceback" not in said


ASKED = """
import json, os, sys
import crawlservice.wsgi as web
os.environ["CRAWLFRAME_DEBUG"] = "1"
for words in json.loads(sys.argv.pop()):
    sys.argv = ["manage.py", "runserver", *words]
    try:
        web._check()
        print()
    except web.ConfigError as error:
        print(error)
"""


@pytest.mark.process
def test_the_server_of_django_is_refused_at_a_public_address(tmp_path: Path) -> None:
    var = {"CRAWLFRAME_VAR_DIR": str(tmp_path)}
    refused = [["0.0.0.0:8000"], ["--noreload", "[::]:8000"], ["0:8000"]]
    good = [[], ["8000", "-v", "2"], ["localhost:8000"], ["[::1]:8000", "--noreload"]]
    code, said = start("-c", ASKED, json.dumps([*refused, *good]), **var)
    assert code == 0, said
    assert [SHOWN in line for line in said.splitlines()] == [True] * 3 + [False] * 4
    for argv in (["manage.py", "runserver", *refused[0]], ["-c"]):  # also an unknown server
        setting = f"import sys; sys.argv = {argv}; import crawlservice.wsgi"
        code, said = start("-c", setting, **DEBUG, **var)
        assert code == 1
        assert SHOWN in said


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_directory(path: Path, *names: str) -> Path:
    path.mkdir()
    path.chmod(0o755)
    for name in names:
        (path / name).touch()
        (path / name).chmod(0o644)
    return path


def test_an_older_var_directory_is_closed_to_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = ("secret_key", "crawlframe.sqlite3", "crawlframe.sqlite3.lock", "redis", "log")
    var = open_directory(tmp_path / "var", *names)
    for _ in range(2):
        private_directory(var)
    assert mode(var) == 0o700
    assert mode(var / "secret_key") == mode(var / "crawlframe.sqlite3") == 0o600
    assert mode(var / "log") == 0o644
    (line,) = caplog.messages
    assert f"{var} was closed to other users" in line


def test_a_directory_of_other_things_is_left_alone_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Such as a home directory or a checkout."""
    home = open_directory(tmp_path / "home", "notes", "secret_key")
    private_directory(home)
    assert (mode(home), mode(home / "notes")) == (0o755, 0o644)
    assert mode(home / "secret_key") == 0o600
    (line,) = caplog.messages
    assert "CRAWLFRAME_VAR_DIR" in line
    assert "(notes)" in line
    home.chmod(0o700)
    private_directory(home)
    assert len(caplog.messages) == 1


def test_a_directory_that_all_write_to_is_left_alone(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    private_directory(shared)
    assert mode(shared) == 0o1777
    private_directory(tmp_path / "none")


def test_every_start_closes_it(tmp_path: Path) -> None:
    var = tmp_path / "var"
    var.mkdir()
    var.chmod(0o755)
    code, _ = start("-c", "import crawlservice.settings", CRAWLFRAME_VAR_DIR=str(var))
    assert (code, mode(var)) == (0, 0o700)
