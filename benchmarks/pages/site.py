"""Site: pages on many hosts, over TLS with a CA of its own, compressed by gzip or brotli. The hosts
in turn speak HTTP/1.1 and HTTP/2.

Host h<k>-<set>.pages.test has the 20 pages of its set, below /p/g/ (gzip) or /p/b/ (brotli). A
redirect leads to the page below /p/r/; there is nothing below /p/e/."""

from __future__ import annotations

import gzip
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import brotli

from benchmarks.lab.nginx import Nginx
from benchmarks.pages.names import DOMAIN

ON_HOST = 20  # pages
SETS = 40  # of generated pages
MEDIAN, SIGMA = 140 << 10, 1.0  # bytes; 242 KB on average
FEWEST, MOST = 8 << 10, 2 << 20  # bytes
LINKS = 120  # of a page
REDIRECTS = 33  # each such page is behind a redirect: 3 %
ERRORS = 50  # each such page has a link to a missing page: 2 %
_LOCATIONS = """\
    server_name "~^h[0-9]+-(?<set>[0-9]+)[.]";
    absolute_redirect off;
    location / {{ root {root}/$set; default_type text/plain; }}
    location /p/g/ {{
      root {root}/$set; default_type "text/html; charset=utf-8"; add_header Content-Encoding gzip;
    }}
    location /p/b/ {{
      root {root}/$set; default_type "text/html; charset=utf-8"; add_header Content-Encoding br;
    }}
    location /p/r/ {{ rewrite ^/p/r/(.*)$ /p/$1 redirect; }}
"""


class Site(Nginx):
    """``pages`` are those of all hosts. ``seeds``: a file with the URLs to begin with: the first
    page of each host, or with ``follow=False`` all."""

    def __init__(self, work: Path, pages: Sequence[bytes], hosts: int, *, follow: bool) -> None:
        sets = len(pages) // ON_HOST
        if not sets:
            raise RuntimeError(f"there are {len(pages)} pages; a host has {ON_HOST}")
        for number, page in enumerate(pages[: sets * ON_HOST]):
            self._write(work / "root" / str(number // ON_HOST), number % ON_HOST, page)
        self.pages, self.bytes = hosts * ON_HOST, sum(map(len, pages)) // len(pages)
        self.certificate, both = _certificates(work)
        locations = _LOCATIONS.format(root=work / "root")
        super().__init__(work / "root", work, log=False, locations=locations, tls=both)
        self.seeds, self.follow = work / "seeds", "yes" if follow else ""
        urls = [
            f"https://h{k}-{k % sets}.{DOMAIN}:{self.ports[k % 2]}/p/{address}"
            for k in range(hosts)
            for address in ([_coded(0)] if follow else addresses(k % sets))
        ]
        self.seeds.write_text("\n".join(urls))

    def _write(self, root: Path, place: int, page: bytes) -> None:
        for coding in "gb":
            (root / "p" / coding).mkdir(parents=True, exist_ok=True)
        (root / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
        pack = (
            gzip.compress(page, 6) if _coded(place)[0] == "g" else brotli.compress(page, quality=5)
        )
        (root / "p" / _coded(place)).write_bytes(pack)


def _certificates(work: Path) -> tuple[Path, Path]:
    """The certificate of a new CA, and a file with key and certificate of the hosts."""
    ca, key, both = work / "ca.pem", work / "ca.key", work / "hosts.pem"
    host, file = work / "host.pem", work / "host.key"
    new = ["openssl", "req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt",
           "ec_paramgen_curve:P-256"]  # fmt: skip
    signed = ["-CA", str(ca), "-CAkey", str(key), "-addext", f"subjectAltName=DNS:*.{DOMAIN}"]
    for words in (
        ["-subj", "/CN=bench CA", "-keyout", str(key), "-out", str(ca)],
        ["-subj", "/CN=bench", "-keyout", str(file), "-out", str(host), *signed],
    ):
        subprocess.run([*new, *words], check=True, capture_output=True)
    both.write_text(file.read_text() + host.read_text())
    return ca, both


def addresses(set_number: int) -> list[str]:
    """The addresses, below /p/, of the pages of a set, and of the pages that it lacks."""
    numbers = [(place, set_number * ON_HOST + place) for place in range(ON_HOST)]
    found = [f"r/{_coded(p)}" if p and n % REDIRECTS == 7 else _coded(p) for p, n in numbers]
    return found + [f"e/{place}" for place, number in numbers if number % ERRORS == 3]


def generated(count: int) -> Iterator[bytes]:
    """Pages with scripts, styles, inline JSON, JSON-LD, images, and links of which one in six leads
    to a page of the same host."""
    words = [
        "".join(random.Random(seed).choices("etaoinshrdlu", k=2 + seed % 9)) for seed in range(4000)
    ]
    for number in range(count):
        dice = random.Random(number)
        size = int(min(MOST, max(FEWEST, dice.lognormvariate(0, SIGMA) * MEDIAN)))
        yield _page(number, size, dice, words).encode()


def _page(number: int, size: int, dice: random.Random, words: list[str]) -> str:
    def text(count: int) -> str:
        return " ".join(dice.choices(words, k=count))

    tokens = [f"{dice.getrandbits(64):x}" for _ in range(200)]

    def token() -> str:
        return dice.choice(tokens)

    own = [f"/p/{address}" for address in addresses(number // ON_HOST)]
    others = [f"/tag/{dice.choice(words)}" if k % 2 else f"https://www.{dice.choice(words)}.example/{k}"
              for k in range(LINKS - len(own))]  # fmt: skip
    hrefs = own + others
    dice.shuffle(hrefs)
    cards = "".join(
        f'<li class="card card-{k % 7}" data-id="{token()}"><a class="link" href="{href}">'
        f'<img src="/i/{token()}.jpg" alt="{text(3)}" loading="lazy" width="320" height="200">'
        f"<span>{text(6)}</span></a></li>\n"
        for k, href in enumerate(hrefs)
    )
    article = "".join(f"<p>{text(60)}</p>\n" for _ in range(size // 2000))
    icon = '<svg viewBox="0 0 9 9"><path d="M1 1h7v7z"/></svg>' if number % 2 else ""
    linked = f'{{"@context":"https://schema.org","@type":"Article","headline":"{text(8)}"}}'
    head = (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{text(6)}</title>\n'
        f'<meta name="description" content="{text(20)}"><link rel="canonical" href="/p/{number}">\n'
        f'<meta property="og:title" content="{text(6)}">'
        f'<meta name="robots" content="index,follow">\n'
        f'<script type="application/ld+json">{linked}</script>\n'
    )
    rest = size - len(head) - len(cards) - len(article)
    style = "".join(
        f".{dice.choice(words)}-{k}{{margin:{k % 9}px;color:#{token()[:6]}}}"
        for k in range(max(0, rest // 5) // 34)
    )
    state = ",".join(
        f'{{"id":"{token()}","name":"{text(2)}","on":true}}' for _ in range(max(0, rest // 3) // 54)
    )
    script = "".join(
        f"function {dice.choice(words)}{k}(a,b){{if(a<b&&b>{k}){{return a+'{token()}'}}}}\n"
        for k in range(max(0, rest - rest // 5 - rest // 3) // 62)
    )
    return (
        f"{head}<style>{style}</style><script>window.state=[{state}]</script></head>\n"
        f"<body><nav>{icon}</nav><h1>{text(5)}</h1><ul>{cards}</ul><article>{article}</article>\n"
        f"<script>{script}</script></body></html>"
    )


def _coded(place: int) -> str:
    return f"{'b' if place % 3 == 1 else 'g'}/{place}"
