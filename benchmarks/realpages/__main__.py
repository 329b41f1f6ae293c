"""``python -m benchmarks.realpages [--pages N] [--hosts N] [--rounds N] [--corpus DIRECTORY]``"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2

from benchmarks.lab.job import keep, run, say, show
from benchmarks.lab.meter import Metered
from benchmarks.lab.nginx import Nginx
from benchmarks.lab.node import CHECKOUT, Node, migrated
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

SIZE, LINKS = 234 << 10, 120  # bytes and links of a generated page
NAMES = ("crawlframe", "scrapy", "bare")
COMPRESSED = (
    '    location /p/ { default_type "text/html; charset=utf-8"; '
    "add_header Content-Encoding gzip; }\n"
)
WORDS = ("flour", "sugar", "butter", "oven", "bake", "minutes", "add", "stir", "until", "golden")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.realpages", description=__doc__)
    parser.add_argument("--pages", type=int, default=4_000, help="generated pages (4000)")
    parser.add_argument("--hosts", type=int, default=200, help="(200)")
    parser.add_argument("--rounds", type=int, default=5, help="(5)")
    parser.add_argument("--quick", action="store_true", help="one round of 200 pages, 20 hosts")
    parser.add_argument("--corpus", type=Path, help="a directory of real pages: a second job")
    parser.add_argument("--output", type=Path, help="of the figures (build/bench/results/…)")
    options = parser.parse_args()
    if options.quick:
        options.pages, options.hosts, options.rounds = 200, 20, 1
    return run("realpages", lambda work: measure(options, work))


def measure(options: argparse.Namespace, work: Path) -> int:
    jobs = {"generated": generated(options.pages, options.hosts)}
    if options.corpus:
        jobs["real"] = (
            file.read_bytes()
            for file in sorted(options.corpus.rglob("*.*html"))
            if file.stat().st_size
        )
    figures = {}
    with Postgres() as postgres, RedisServer(work / "redis") as redis:
        tables = migrated(postgres, work / "tables")
        for job, pages in jobs.items():
            site = Site(work / job, pages, options.hosts, follow=job == "generated")
            with site:
                found: dict[str, list[float]] = {name: [] for name in NAMES}
                for number in range(options.rounds):
                    for name in NAMES[number % 3 :] + NAMES[: number % 3]:
                        redis.flush()
                        place = work / f"{job}-{number}-{name}"
                        place.mkdir()
                        if name == "crawlframe":
                            cpu = ours(site, place, postgres.new_database(tables), redis.url)
                        else:
                            cpu = theirs(name, site, place, postgres.new_database())
                        found[name].append(1000 * cpu / site.pages)
                        say("realpages", f"{job}: {name} {found[name][-1]:.2f} ms a page")
            figures[job] = found
            ratios = {
                name: [a / b for a, b in zip(found[name], found["scrapy"], strict=True)]
                for name in NAMES
            }
            rows = [
                [name, f"{statistics.median(found[name]):.2f}", f"{min(found[name]):.2f} to "
                 f"{max(found[name]):.2f}", f"{statistics.median(ratios[name]):.2f}"]
                for name in NAMES
            ]  # fmt: skip
            show(f"{job}: {site.pages} pages", ("ms of CPU a page", "range", "of Scrapy's"), rows)
    keep("realpages", figures, options.output)
    return 0


class Site(Nginx):
    """The pages, compressed, over TLS on as many addresses as there are hosts."""

    def __init__(self, work: Path, pages: Iterator[bytes], hosts: int, *, follow: bool) -> None:
        (work / "root" / "p").mkdir(parents=True)
        self.pages = 0
        for page in pages:
            (work / "root" / "p" / str(self.pages)).write_bytes(gzip.compress(page, 6))
            self.pages += 1
        (work / "root" / "robots.txt").write_text("User-agent: *\nAllow: /\n")
        names = [f"127.0.{number // 250}.{number % 250 + 1}" for number in range(hosts)]
        self.certificate, both = work / "certificate.pem", work / "both.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-days", "2", "-subj", "/CN=bench", "-keyout", both,
             "-out", self.certificate, "-addext",
             "subjectAltName=" + ",".join(f"IP:{name}" for name in names)],
            check=True, capture_output=True,
        )  # fmt: skip
        with both.open("a") as file:
            file.write(self.certificate.read_text())
        super().__init__(work / "root", work, log=False, locations=COMPRESSED, tls=both)
        first = range(hosts) if follow else range(self.pages)
        urls = [f"https://{names[n % hosts]}:{self.port}/p/{n}" for n in first]
        self.seeds, self.follow = work / "seeds", "yes" if follow else ""
        self.seeds.write_text("\n".join(urls))


def generated(count: int, hosts: int) -> Iterator[bytes]:
    """Pages with scripts, styles, inline JSON and links to pages of the same host."""
    for number in range(count):
        dice = random.Random(number)
        text = [dice.choice(WORDS) for _ in range(3_000)]
        own = [n % count // hosts * hosts + number % hosts for n in range(0, LINKS * hosts, hosts)]
        links = "".join(
            f'<li class="card"><a class="link" href="/p/{n if n < count else number}">'
            f'<img src="/i/{n}.jpg" alt="x"><span>{" ".join(text[k : k + 5])}</span></a>'
            for k, n in enumerate(own)
        )
        article = "".join(f"<p>{' '.join(text[k : k + 60])}</p>" for k in range(0, 3_000, 60))
        data = "".join(f'{{"id":{k},"name":"{text[k]}","on":true}},' for k in range(1_500))
        head = f'<!DOCTYPE html><html><head><meta charset="utf-8"><title>Page {number}</title>'
        page = (
            f"{head}<style>{'.card a:hover{color:#123456;margin:0 auto}' * 1_200}</style>"
            f"<script>window.state={{items:[{data}]}}</script></head><body><ul>{links}</ul>"
            f"<article>{article}</article>"
        )
        script = "function f(a,b){if(a>b&&b<9){return a+b}var c=[1,2,3];}"
        yield f"{page}<script>{script * ((SIZE - len(page)) // len(script))}</script>".encode()


def ours(site: Site, work: Path, dsn: str, redis: str) -> float:
    env = {"SSL_CERT_FILE": str(site.certificate)}
    with Node(work / "node", dsn, redis, spiders="benchmarks.realpages.spiders", env=env) as node:
        node.wait_until_known("pages")
        node.wait(node.submit("pages", seeds=site.seeds, within=site.follow), 3_600)
        usage = node.stop()
    check(dsn, "SELECT count(*) FROM crawlservice_item", site.pages, work / "node" / "node.log")
    return usage.cpu


def theirs(name: str, site: Site, work: Path, dsn: str) -> float:
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE row (url text, title text, links int)")
    words = [name, dsn, site.seeds, site.certificate, site.follow]
    command = [sys.executable, "-m", "benchmarks.realpages.contenders", *words]
    with Metered(map(str, command), work / "log", cwd=CHECKOUT, env={**os.environ}) as run:
        usage = run.wait(3_600)
    check(dsn, "SELECT count(*) FROM row", site.pages, work / "log")
    return usage.cpu


def check(dsn: str, query: str, pages: int, log: Path) -> None:
    """Raises RuntimeError unless every page was stored."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        (count,) = cursor.fetchone() or (0,)
    if count != pages:
        raise RuntimeError(f"stored {count} of {pages} pages: {log.read_text()[-2000:]}")


if __name__ == "__main__":
    sys.exit(main())
