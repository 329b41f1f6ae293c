"""Cluster: nodes, Redis and PostgreSQL, which faults can damage."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType

import psutil
from redis import Redis

from crawlservice.cli.process_group import die_with_parent
from tests.faults import grove
from tests.faults.maze import SPIDER
from tests.faults.proxy import Proxy
from tests.servers import PostgresServer, RedisServer, free_port

LEASE = 3.0  # seconds
EXPORTS = """
[everything]
target = { kind = "files", url = "everything", max_rows = 500, max_minutes = 0 }
"""
MANAGE = (sys.executable, str(Path(__file__).resolve().parents[2] / "manage.py"))


class Cluster:
    """``with Cluster(directory, nodes, workers, chance)``. Nodes and tests connect to ``database``
    and ``redis``, which are proxies in front of both servers. The nodes' spider is a file that
    changes; ``options`` are arguments of runcrawler, ``variables`` are added to its environment."""

    def __init__(
        self,
        directory: Path,
        nodes: int,
        workers: int,
        chance: random.Random,
        partitions: int = 1,
        options: tuple[str, ...] = ("--reload",),
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.chance = chance
        self.partitions = partitions
        self.temporary = directory / "tmp"  # for temporary files of the nodes
        self.exported = directory / "exported"
        self._directory = directory
        self._options, self._variables = options, variables
        self._workers = workers
        self._names = [f"node{number}" for number in range(1, nodes + 1)]
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}
        self._versions = 0
        self._stack = ExitStack()
        self.redis_server = self._redis_server("--port", free_port())
        self.postgres_server = PostgresServer()
        self.redis = f"unix://{directory}/front/redis.sock?db=0"
        self.database = f"postgresql://crawlframe@/postgres?host={directory}/front"

    def __enter__(self) -> Cluster:
        front, mazes = self._directory / "front", self._directory / "mazes"
        for directory in (front, mazes, self.temporary):
            directory.mkdir(parents=True)
        (mazes / "__init__.py").touch()
        (mazes / "exports.toml").write_text(EXPORTS)
        grove.write(self._directory)
        self.change_code()
        try:
            self.redis_server.start()
            self._stack.callback(lambda: self.redis_server.kill())
            self._stack.callback(self.postgres_server.stop)
            self.postgres_server.start()
            self.redis_proxy = self._proxy(front / "redis.sock", self.redis_server.socket)
            behind = self.postgres_server.socket
            self.postgres_proxy = self._proxy(front / behind.name, behind)
            self._stack.callback(self._kill_nodes)
            self.manage("makemigrations", grove.NAME, "--verbosity", 0)
            self.manage("migrate", "--verbosity", 0)
            self.heal()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def _redis_server(self, *options: object) -> RedisServer:
        """A server with a new directory."""
        number = len([*self._directory.glob("redis*")])
        return RedisServer(self._directory / f"redis{number}", *map(str, options))

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
            "CRAWLFRAME_PARTITIONS": str(self.partitions),
            "CRAWLFRAME_SPIDERS": "mazes",
            "CRAWLFRAME_APPS": grove.NAME,
            "CRAWLFRAME_EXPORT_DIR": str(self.exported),
            "PYTHONPATH": str(self._directory),
            "TMPDIR": str(self.temporary),
            "DATABASE_URL": self.database,
            "REDIS_URL": self.redis,
            **self._variables,
        }

    def manage(self, *words: object) -> None:
        """Runs a command of manage.py. Raises RuntimeError with its output if it fails."""
        done = subprocess.run(
            [*MANAGE, *map(str, words)], env=self.environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)

    def heal(self) -> None:
        """Restarts the nodes that have ended, as the service manager of a machine does."""
        for name in self._names:
            node = self._nodes.get(name)
            if node is None or node.poll() is not None:
                words = ["--node", name, "--workers", self._workers, "--concurrency", 16]
                with (self._directory / f"{name}.log").open("ab") as log:
                    self._nodes[name] = subprocess.Popen(
                        [*MANAGE, "runcrawler", *self._options, *map(str, words)],
                        env=self.environment,
                        stdout=log,
                        stderr=log,
                        preexec_fn=die_with_parent(signal.SIGKILL),
                    )

    def stop(self) -> list[int]:
        """Stops all nodes gracefully. Returns their exit codes."""
        for node in self._nodes.values():
            node.terminate()
        return [node.wait(30) for node in self._nodes.values()]

    @property
    def output(self) -> str:
        """The output of all nodes."""
        return "".join((self._directory / f"{name}.log").read_text() for name in self._names)

    def heads(self) -> list[psutil.Process]:
        """Their first processes: supervisors, or masters without ``--reload``."""
        return [psutil.Process(n.pid) for n in self._nodes.values() if n.poll() is None]

    def masters(self) -> list[psutil.Process]:
        """The masters, one of each node, and two during a handover."""
        return _children(self.heads())

    def children(self) -> list[psutil.Process]:
        """Workers, templates and stewards."""
        return _children(self.masters())

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

    def change_code(self, *, broken: bool = False) -> None:
        """Writes a new version of the spider; a broken one cannot be imported."""
        self._versions += 1
        source = SPIDER.format(version=self._versions) + "def\n" * broken
        (self._directory / "mazes" / "maze.py").write_text(source)

    # -- servers ----------------------------------------------------------------------------------

    def restart_redis(self, tail: int = 0) -> None:
        """Kills it, drops the last bytes of its append-only file, and starts it."""
        self.redis_server.kill()
        self.redis_server.lose(tail)
        time.sleep(self.chance.uniform(0, 0.5))
        self.redis_server.start()

    def standby(self) -> PostgresServer:
        """A copy of the database that receives every change as fast as possible."""
        standby = self.postgres_server.standby()
        self._stack.callback(standby.stop)
        return standby

    def fail_over(self, standby: PostgresServer) -> None:
        """Stops the primary; new connections lead to the standby, which is then promoted."""
        self.postgres_server.stop()
        self.postgres_server = standby
        self.postgres_proxy.lead_to(standby.socket)
        self.postgres_proxy.cut()
        standby.promote()

    def restart_postgres(self) -> None:
        """Stops it immediately, and starts it."""
        self.postgres_server.crash()
        time.sleep(self.chance.uniform(0, 0.5))
        self.postgres_server.start()

    def fail_over_redis(self) -> None:
        """Replaces the primary by a replica that lacks its last writes."""
        primary = self.redis_server
        port = primary.options[1]
        replica = self._redis_server("--port", free_port(), "--replicaof", f"127.0.0.1 {port}")
        replica.start()
        with Redis.from_url(replica.url) as client:
            while client.info("replication")["master_link_status"] != "up":
                time.sleep(0.02)
            client.replicaof("NO", "ONE")
        time.sleep(self.chance.uniform(0, 1))
        primary.kill()
        replica.options = replica.options[:2]  # should it be started again
        self.redis_server = replica
        self.redis_proxy.lead_to(replica.socket)


def _children(parents: list[psutil.Process]) -> list[psutil.Process]:
    """Processes forked from ours, unlike git and other programs."""
    found = []
    for parent in parents:
        with suppress(psutil.Error):
            found += [child for child in parent.children() if "--supervised" in child.cmdline()]
    return found
