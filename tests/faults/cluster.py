"""Cluster: nodes, Redis, PostgreSQL and a site, all of which can be hurt."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

from crawlservice.household import die_with_parent
from tests.faults.proxy import Proxy
from tests.servers import PostgresServer, RedisServer

LEASE = 3.0  # seconds
MANAGE = (sys.executable, str(Path(__file__).resolve().parents[2] / "manage.py"))


class Cluster:
    """``with Cluster(directory, nodes, workers, chance)``. ``database`` and ``redis`` are what
    nodes and tests connect to: proxies stand before both servers. Keywords are further variables of
    the nodes' environment."""

    def __init__(
        self, directory: Path, nodes: int, workers: int, chance: random.Random, **variables: str
    ) -> None:
        self.chance = chance
        self._directory = directory
        self._variables = variables
        self._workers = workers
        self._names = [f"node{number}" for number in range(1, nodes + 1)]
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._stack = ExitStack()
        self.redis_server = RedisServer(directory / "redis")
        self.postgres_server = PostgresServer()
        self.redis = f"unix://{directory}/front/redis.sock?db=0"
        self.database = f"postgresql://crawlframe@/postgres?host={directory}/front"

    def __enter__(self) -> Cluster:
        front = self._directory / "front"
        front.mkdir(parents=True)
        try:
            self.redis_server.start()
            self._stack.callback(self.redis_server.kill)
            self._stack.callback(self.postgres_server.stop)
            self.postgres_server.start()
            self.redis_proxy = self._proxy(front / "redis.sock", self.redis_server.socket)
            behind = self.postgres_server.socket
            self.postgres_proxy = self._proxy(front / behind.name, behind)
            self._stack.callback(self._kill_nodes)
            self.manage("migrate")
            self.heal()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _proxy(self, front: Path, back: Path) -> Proxy:
        return self._stack.enter_context(Proxy(front, back))

    # -- nodes ------------------------------------------------------------------------------------

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "CRAWLFRAME_VAR_DIR": str(self._directory / "var"),
            "CRAWLFRAME_ALLOW_PRIVATE": "127.0.0.0/8",
            "CRAWLFRAME_LEASE": str(LEASE),
            "CRAWLFRAME_BEAT": "0.5",
            "CRAWLFRAME_GRACE": "5",
            "DATABASE_URL": self.database,
            "REDIS_URL": self.redis,
            **self._variables,
        }

    def manage(self, *words: object) -> None:
        """Runs a command of manage.py. Raises RuntimeError with what it says when it fails."""
        done = subprocess.run(
            [*MANAGE, *map(str, words)], env=self.environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def heal(self) -> None:
        """Starts the nodes that have ended, as the service manager of a machine does."""
        for name in self._names:
            node = self._nodes.get(name)
            if node is None or node.poll() is not None:
                words = ["--node", name, "--workers", self._workers, "--concurrency", 16]
                with (self._directory / f"{name}.log").open("ab") as log:
                    self._nodes[name] = subprocess.Popen(
                        [*MANAGE, "runcrawler", *map(str, words)],
                        env=self.environment,
                        stdout=log,
                        stderr=log,
                        preexec_fn=die_with_parent(signal.SIGKILL),
                    )

    def stop(self) -> list[int]:
        """Stops all nodes in order. Answers their exit codes."""
        for node in self._nodes.values():
            node.terminate()
        return [node.wait(30) for node in self._nodes.values()]

    @property
    def output(self) -> str:
        """All that the nodes have written."""
        return "".join((self._directory / f"{name}.log").read_text() for name in self._names)

    def masters(self) -> list[psutil.Process]:
        return [psutil.Process(n.pid) for n in self._nodes.values() if n.poll() is None]

    def children(self) -> list[psutil.Process]:
        """Workers, templates and stewards."""
        found: list[psutil.Process] = []
        for master in self.masters():
            with suppress(psutil.NoSuchProcess):
                found += master.children()
        return found

    def left(self) -> list[psutil.Process]:
        """All living processes of the nodes, whoever their parents are."""
        var = str(self._directory / "var")
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("CRAWLFRAME_VAR_DIR") == var:
                    found.append(process)
        return found

    def _kill_nodes(self) -> None:
        for process in self.left():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        for node in self._nodes.values():
            node.wait()

    # -- servers ----------------------------------------------------------------------------------

    def restart_redis(self, tail: int = 0) -> None:
        """It is killed, the last bytes of its append-only file get lost, and it is started."""
        self.redis_server.kill()
        self.redis_server.lose(tail)
        time.sleep(self.chance.uniform(0, 0.5))
        self.redis_server.start()

    def standby(self) -> PostgresServer:
        """A copy of the database that is told of everything, as fast as it can be."""
        standby = self.postgres_server.standby()
        self._stack.callback(standby.stop)
        return standby

    def fail_over(self, standby: PostgresServer) -> None:
        """The primary is gone, and who connects is led to the standby, which then takes over."""
        self.postgres_server.stop()
        self.postgres_server = standby
        self.postgres_proxy.lead_to(standby.socket)
        standby.promote()

    def restart_postgres(self) -> None:
        """It stops at once, and is started."""
        self.postgres_server.crash()
        time.sleep(self.chance.uniform(0, 0.5))
        self.postgres_server.start()
