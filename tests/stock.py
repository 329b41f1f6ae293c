"""Servers in their default configuration, over TCP: the distribution's, or the wheels'."""

from __future__ import annotations

import os
from pathlib import Path

from redis import Redis, RedisError

from crawlframe.embedded.server import find_server
from tests.servers import PostgresServer, RedisServer, free_port

REDIS_CONFIG = Path("/etc/redis/redis.conf")  # Debian's
POSTGRES = Path("/usr/lib/postgresql")  # Debian's, a directory for each major version
PASSWORD = "p%ss:w@rd"


class StockRedis(RedisServer):
    """No append-only file, snapshots by the default rules."""

    def __init__(self, directory: Path, *options: str) -> None:
        super().__init__(directory, *options)
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"

    def _command(self) -> list[str]:
        config = [str(REDIS_CONFIG)] if os.access(REDIS_CONFIG, os.R_OK) else []
        ours = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.directory),
            "pidfile": str(self.directory / "redis.pid"),
            "daemonize": "no",
            "logfile": "",
        }
        return [find_server(), *config, *(word for k, v in ours.items() for word in (f"--{k}", v))]

    def _answers(self) -> bool:
        try:
            with Redis.from_url(self.url) as client:
                return bool(client.ping())
        except RedisError:
            return False


class StockPostgres(PostgresServer):
    """A server with a password, which writes everything to a disk as it is by default."""

    initdb = ("-A", "scram-sha-256", "--pwfile=password")
    place = "/var/tmp"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self.url = f"postgresql://crawlframe:p%25ss%3Aw%40rd@127.0.0.1:{self.port}/postgres"
        (self.directory / "password").write_text(PASSWORD)

    def _settings(self) -> dict[str, str]:
        return {"port": str(self.port)}

    def _reachable_programs(self) -> Path:
        installed = sorted(POSTGRES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
        return installed[-1].parent if installed else super()._reachable_programs()
