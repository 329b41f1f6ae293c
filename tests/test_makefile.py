"""make: variables in either case, refused when unknown, and the output of an installation."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
SITE = "https://x.example/?a=1&b=2"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="needs make")


def make(*arguments: str, directory: Path = CHECKOUT) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.run(
        ["make", "--no-print-directory", "-C", str(directory), *arguments],
        capture_output=True, text=True, check=False, env=env,
    )  # fmt: skip


def planned(*arguments: str) -> str:
    """The last command that would be run."""
    done = make("-n", "-o", ".venv/runtime", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "variables",
    [
        (f"URL={SITE}", "ARGS=depth=2 pages=3"),
        (f"url={SITE}", "args=depth=2 pages=3"),
        (f"URL={SITE}", "args=depth=2 pages=3"),
    ],
)
def test_crawl_takes_its_variables_in_either_case(variables: tuple[str, ...]) -> None:
    command = planned("crawl", *variables)
    assert command.endswith(f"crawl site -a 'depth=2' -a 'pages=3' --url '{SITE}'")


def test_other_variables_too() -> None:
    assert planned("crawl", "spider=quotes").endswith(" crawl quotes")
    assert planned("up", "bind=127.0.0.1:9").endswith(" up --bind '127.0.0.1:9'")


def test_without_variables_the_demo_is_crawled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("url", "https://of-another-program.example/")
    assert planned("crawl").endswith("python -m examples.demo_site.crawl --workers 2")


def test_a_variable_that_means_nothing_is_refused() -> None:
    done = make("-n", "crawl", "ulr=https://x.example/")
    assert done.returncode == 2
    assert "there is no variable ulr; the variables are PYTHON SPIDER URL ARGS" in done.stderr


PIP = r"""
echo "Collecting django==5.2 (from -r requirements.lock (line 1))"
echo "  Using cached django-5.2-py3-none-any.whl.metadata (4.1 kB)"
echo "Collecting pyarrow==21 (from -r requirements.lock (line 2))"
echo "Downloading django-5.2-py3-none-any.whl (8.3 MB)"
echo "Downloading small-1-py3-none-any.whl (12 kB)"
echo "Installing collected packages: django, pyarrow"
[ -e fail ] && { echo "ERROR: no space left" >&2; exit 1; }
echo "Successfully installed django-5.2 pyarrow-21"
"""


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """A checkout with a virtual environment whose pip only prints pip's output."""
    shutil.copy(CHECKOUT / "Makefile", tmp_path)
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").touch()
    (tmp_path / "requirements.lock").write_text("django==5.2\npyarrow==21\n")
    (tmp_path / "pip.sh").write_text(PIP)
    return tmp_path


def test_an_installation_shows_what_it_does(fresh: Path) -> None:
    done = make(".venv/runtime", "PIP=sh pip.sh", directory=fresh)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["Installing", "what", "Crawlframe", "needs", "into", ".venv", "(once):", "2", "packages"],
        ["1", "django==5.2"],
        ["2", "pyarrow==21"],
        ["downloading", "django-5.2-py3-none-any.whl", "(8.3", "MB)"],
        ["installing", "them"],
    ]
    assert (fresh / ".venv/runtime").exists()


def test_an_installation_that_fails_is_no_installation(fresh: Path) -> None:
    (fresh / "fail").touch()
    done = make(".venv/runtime", "PIP=sh pip.sh", directory=fresh)
    assert done.returncode != 0
    assert "no space left" in done.stderr
    assert not (fresh / ".venv/runtime").exists()
