"""The settings of a node: one typed class, read from the environment and checked at start-up."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from crawlframe.base.ranks import Everyday, Tuning
from crawlframe.base.storage_url import check_place
from crawlframe.errors import ConfigError
from crawlframe.identity.identity import check_contact, default_user_agent
from crawlframe.identity.signing import DIRECTORY, check_origin
from crawlframe.request.checks import wrong_in_head

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_FUNCTION = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*")  # module:function

CACHES = ("", "on", "refresh")
AFFINITIES = ("off", "host", "domain")
PREVIEWS = ("", "off", "ask", "refuse")
PREFIX = "CRAWLFRAME_"  # of the environment variables
POSITIVE = (
    "workers", "concurrency", "partitions", "lease", "beat", "deadline", "max_memory", "max_age",
    "transfer_memory", "max_deliveries", "commit_batch", "backlog", "start_ahead", "quiet",
    "load_timeout", "check_timeout", "database_timeout", "browser_memory",
)  # fmt: skip


def available_cpus() -> int:
    """Return the number of CPUs this process may use, within a container's CPU quota."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cpus = min(cpus, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass
    return cpus


@dataclass(frozen=True)
class Settings:
    """Each field is set by the environment variable CRAWLFRAME_<FIELD>; units in the comments."""

    var_dir: Path = Path("var")  # embedded databases, sockets, generated secrets
    node: str = field(default_factory=socket.gethostname)  # unique in the cluster
    workers: Everyday[int] = field(default_factory=available_cpus)  # worker processes of a node
    concurrency: int = 64  # requests in flight per worker
    spiders: Everyday[str] = "spiders"  # package whose modules are the spiders
    scrapy: str = ""  # directory of a Scrapy project, whose spiders run as they are
    key_prefix: Tuning[str] = "cf"  # of every Redis key
    partitions: Tuning[int] = 1  # of the frontier; fixed for the life of its data
    affinity: str = "off"  # hash key to find the node that prefers a host: host, domain
    grace: float = 20.0  # seconds that a stopping node or worker has to finish its fetches
    lease: Tuning[float] = 15.0  # seconds after which a silent node is declared dead
    beat: Tuning[float] = 3.0  # seconds between two renewals of the lease
    quiet: Tuning[float] = 0.2  # seconds without a change after which code is reloaded (--reload)
    load_timeout: Tuning[float] = 30.0  # seconds for the import of a module of the spiders
    recorded: Path = Path("tests", "recorded")  # directory of recorded pages, next to the spiders
    check_timeout: Tuning[float] = 60.0  # seconds for pages that a new version is checked with
    preview: str = ""  # of each new version on kept pages: off, ask, refuse; "" = see docs
    deadline: float = 120.0  # seconds a callback may run before its worker is killed
    max_memory: int = 1024  # MiB of a worker, above which it is replaced
    transfer_memory: Tuning[int] = 256  # MiB of the bodies of a worker's transfers
    max_age: Tuning[float] = 21600.0  # seconds after which a worker is replaced
    max_deliveries: Tuning[int] = 5  # nodes that may die with a request before it is poison
    commit_batch: Tuning[int] = 256  # outcomes per database transaction
    backlog: Tuning[int] = 1024  # outcomes a worker holds while nothing can be committed
    start_ahead: Tuning[int] = 50_000  # requests of a task that wait, above which its start pauses
    contact: Everyday[str] = ""  # URL or mail address, in the default User-Agent
    user_agent: str = ""  # "" = crawlframe/<version> (+<contact>)
    bot_auth: str = ""  # https origin of the directory of our keys; "" = requests are not signed
    max_crawl_delay: float = 60.0  # seconds of a Crawl-delay in robots.txt that are kept at most
    allow_private: tuple[Network, ...] = ()  # networks besides the public internet, e.g. 10.0.0.0/8
    webhook_private: tuple[Network, ...] = ()  # networks that webhooks may be in, besides those
    resolver: str = ""  # module:function, an async resolve(host); "": the machine's name servers
    proxy_echo: str = ""  # page that checks proxies; "": only whether they can be reached
    browser: str = ""  # program of the browser downloader; "" = any Chromium that is found
    browser_pages: int = 8  # pages that a node renders at a time; 0 = it has no browser
    browser_memory: int = 2048  # MiB that the browser's processes may have together
    cache: str = ""  # of pages, for development: "on" replays and keeps, "refresh" only keeps
    files: str = ""  # directory of saved files, or s3://bucket/path; "" = files in var_dir
    keep_sample: int = 20  # good pages of a callback and template that are kept; 0 = none
    pages: str = ""  # directory of kept pages, or s3://bucket/path; "" = the database
    database_timeout: Tuning[float] = 60.0  # seconds without an answer of an idle PostgreSQL
    log_level: Everyday[str] = "INFO"

    def __post_init__(self) -> None:
        if not self.user_agent:
            object.__setattr__(self, "user_agent", default_user_agent(self.contact))

    @property
    def previews(self) -> bool:
        """Whether each new version is run over kept pages."""
        return self.preview not in ("", "off")

    @property
    def signature_agent(self) -> str:
        """The URL of our keys, for Signature-Agent; "" when requests are not signed."""
        return self.bot_auth and check_origin(self.bot_auth) + DIRECTORY

    @classmethod
    def from_env(cls, env: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        """Return the settings of the environment; overrides that are not None take precedence.
        Raises ConfigError."""
        env = os.environ if env is None else env
        values: dict[str, Any] = {}
        for name, kind in get_type_hints(cls).items():
            variable = PREFIX + name.upper()
            if overrides.get(name) is not None:
                values[name] = overrides[name]
            elif variable in env:
                values[name] = _parse(variable, env[variable], kind)
        settings = cls(**values)
        settings._check()
        return settings

    def _check(self) -> None:
        check_contact(self.contact)
        check_origin(self.bot_auth)
        if self.cache not in CACHES:
            raise ConfigError(f"CRAWLFRAME_CACHE={self.cache!r} must be on, refresh or empty")
        if self.affinity not in AFFINITIES:
            raise ConfigError(
                f"CRAWLFRAME_AFFINITY={self.affinity!r} must be {' or '.join(AFFINITIES)}"
            )
        if self.preview not in PREVIEWS:
            raise ConfigError(
                f"CRAWLFRAME_PREVIEW={self.preview!r} must be one of {', '.join(PREVIEWS[1:])}"
            )
        if wrong_in_head({"User-Agent": self.user_agent}, {}):
            raise ConfigError(
                f"CRAWLFRAME_USER_AGENT={self.user_agent!r} has a line break or another character "
                "that is not allowed there"
            )
        check_place("CRAWLFRAME_FILES", self.files)
        check_place("CRAWLFRAME_PAGES", self.pages)
        for name in POSITIVE:
            if not 0 < getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be more than 0")
        for name in ("grace", "max_crawl_delay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be 0 or more seconds")
        if not 0 <= self.keep_sample <= 10_000:
            raise ConfigError(f"keep_sample is {self.keep_sample}; it must be between 0 and 10,000")
        if self.browser_pages < 0:
            raise ConfigError(f"browser_pages is {self.browser_pages}; it must be 0 or more")
        if self.resolver and not _FUNCTION.fullmatch(self.resolver):
            raise ConfigError(
                f"resolver is {self.resolver!r}; it must be module:function, such as "
                "spiders.names:resolve"
            )
        if self.proxy_echo and not self.proxy_echo.startswith(("http://", "https://")):
            raise ConfigError(f"proxy_echo is {self.proxy_echo!r}; it must be an http(s) URL")
        if self.beat * 2 > self.lease:
            raise ConfigError(
                f"beat ({self.beat} s) must be at most half the lease ({self.lease} s)"
            )
        if not self.node or any(mark in self.node for mark in "|{} \t\n"):
            raise ConfigError(f"node name {self.node!r} must be a word without spaces, braces or |")


def _parse(variable: str, text: str, kind: Any) -> Any:
    try:
        if get_origin(kind) is tuple:
            return tuple(ipaddress.ip_network(part) for part in text.replace(",", " ").split())
        return kind(text)
    except ValueError as error:
        hint = {int: "must be a whole number", float: "must be a number"}.get(
            kind, f"cannot be read: {error}; give networks such as 127.0.0.0/8"
        )
        raise ConfigError(f"{variable}={text!r} {hint}") from None
