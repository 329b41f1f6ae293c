"""What must not be reachable by others: DEBUG, keys that can be guessed, the var directory."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from crawlservice.exposure import is_loopback, problem, weakness
from crawlservice.secret import private_directory
from tests.conftest import CHECKOUT

GOOD = "0123456789abcdef" * 2


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
    assert "CRAWLFRAME_DEBUG=1" in problem(["127.0.0.1", "0.0.0.0"], debug=True, key="")
    assert "0.0.0.0" in problem(["127.0.0.1", "0.0.0.0"], debug=True, key="")
    assert "has 6 characters" in problem(["::"], debug=False, key="secret")
    assert problem(["127.0.0.1"], debug=True, key="secret") == ""
    assert problem(["0.0.0.0"], debug=False, key=GOOD) == ""
    assert problem(["0.0.0.0"], debug=False, key="") == ""  # it is generated
    assert weakness("a" * 50) == "has only 1 different characters"


def start(*words: str, **env: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, *words],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "env"),
    [
        (["-m", "gunicorn", "-c", "crawlservice/webserver.py"], {"CRAWLFRAME_BIND": "0.0.0.0:0"}),
        (["-m", "gunicorn", "-c", "crawlservice/webserver.py", "--bind", "0.0.0.0:0"], {}),
        (["manage.py", "up", "--bind", "0.0.0.0:0"], {"REDIS_URL": "redis://x"}),
        (["-c", "import crawlservice.wsgi"], {}),
    ],
)
def test_the_web_refuses_to_start_in_one_sentence(
    tmp_path: Path, redis_client: Redis, redis_url: str, words: list[str], env: dict[str, str]
) -> None:
    env = {**env, "CRAWLFRAME_VAR_DIR": str(tmp_path), "REDIS_URL": redis_url}
    code, said = start(*words, **env, CRAWLFRAME_DEBUG="1")
    assert code == 1
    assert "CRAWLFRAME_DEBUG=1 shows code and settings" in said
    code, said = start(*words, **env, CRAWLFRAME_SECRET_KEY="short")
    assert code == 1
    assert "CRAWLFRAME_SECRET_KEY has 5 characters" in said
    if words[0] != "-c":
        assert said.count("\n") == 1
        assert "Traceback" not in said


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_var_directory_of_before_is_closed_to_others(tmp_path: Path) -> None:
    var = tmp_path / "var"
    var.mkdir(mode=0o755)
    var.chmod(0o755)
    for name in ("secret_key", "crawlframe.sqlite3", "notes"):
        (var / name).touch(mode=0o644)
        (var / name).chmod(0o644)
    private_directory(var)
    assert mode(var) == 0o700
    assert mode(var / "secret_key") == mode(var / "crawlframe.sqlite3") == 0o600
    assert mode(var / "notes") == 0o644


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
