"""The two crawls that are compared, judged by the server's log and by what was stored."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lab.nginx import Nginx
from crawlframe.links import normalise

ROOT = Path(__file__).resolve().parents[2]
HTML_TYPES = ("text/html", "application/xhtml+xml")
WGET_AGENT = "realweb-wget"
OUR_AGENT = "realweb-crawlframe"


class Crawl(NamedTuple):
    seconds: float
    pages: dict[str, int]  # HTML pages with status 200: normalised URL -> bytes of the body
    others: dict[str, str]  # other files with status 200: normalised URL -> media type
    failures: dict[str, int]  # normalised URL -> status from 400 on
    items: dict[str, dict[str, Any]]  # what was stored, by URL; empty for wget
    repeats: int  # requests for a URL requested before


def wget(nginx: Nginx, work: Path) -> Crawl:
    """Raises FileNotFoundError when wget is missing."""
    program = shutil.which("wget")
    if program is None:
        raise FileNotFoundError("wget is not installed; on Debian: apt install wget")
    command = [
        program, "--recursive", "--level=inf", "--execute=robots=off", "--no-proxy",
        "--tries=2", "--timeout=30", "--no-verbose", "--delete-after", "--no-config",
        f"--user-agent={WGET_AGENT}", f"--output-file={work / 'wget.log'}",
        f"--directory-prefix={work / 'wget'}", nginx.url,
    ]  # fmt: skip
    started = time.monotonic()
    # wget exits with 8 when any link was broken, which real sites have.
    subprocess.run(command, env={**os.environ, "LC_ALL": "C.UTF-8"}, check=False)
    return seen(nginx, WGET_AGENT, time.monotonic() - started, {})


def site_spider(nginx: Nginx, work: Path, options: list[str]) -> Crawl:
    """``options`` are added to the crawl command. Raises RuntimeError when it fails."""
    output = work / "pages.jsonl"
    command = [
        sys.executable, "manage.py", "crawl", "realweb",
        "-a", f"url={nginx.url}", "-o", str(output), *options,
    ]  # fmt: skip
    env = {
        "CRAWLFRAME_VAR_DIR": str(work / "var"),
        **os.environ,
        "CRAWLFRAME_SPIDERS": "benchmarks.realweb.spiders",
        "CRAWLFRAME_ALLOW_PRIVATE": "127.0.0.0/8",
        "CRAWLFRAME_USER_AGENT": OUR_AGENT,
    }
    started = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
    seconds = time.monotonic() - started
    if not output.exists():
        raise RuntimeError(f"the crawl left no {output} (exit code {code}): {' '.join(command)}")
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    items = {normalise(row["url"]): row for row in rows}
    if len(items) < len(rows):
        raise RuntimeError(f"{len(rows) - len(items)} pages are stored more than once in {output}")
    return seen(nginx, OUR_AGENT, seconds, items)


def seen(nginx: Nginx, agent: str, seconds: float, items: dict[str, dict[str, Any]]) -> Crawl:
    """The crawl of one client, from the server's log."""
    hits = nginx.hits(agent)
    named = [(normalise(nginx.url.rstrip("/") + hit.uri), hit) for hit in hits]
    found = [(url, hit) for url, hit in named if hit.status == 200]
    pages = {url: hit.bytes for url, hit in found if hit.type in HTML_TYPES}
    others = {url: hit.type for url, hit in found if hit.type not in HTML_TYPES}
    failures = {url: hit.status for url, hit in named if hit.status >= 400}
    repeats = len(hits) - len({hit.uri for hit in hits})
    return Crawl(seconds, pages, others, failures, items, repeats)
