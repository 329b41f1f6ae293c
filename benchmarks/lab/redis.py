"""RedisServer: a private Redis for a benchmark, with the options of the embedded one."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from redis import Redis

from crawlframe.embedded import guardian
from crawlframe.embedded.server import server_command
from crawlservice.cli.process_group import die_with_parent

ANSWER_WITHIN = 30.0  # seconds


class RedisServer:
    """``with RedisServer(directory) as redis: redis.url``; the directory is made, and keeps the
    append-only file and the log.

    Raises ConfigError without a server program, RuntimeError when it does not start."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._socket = directory / "redis.sock"
        self._log = directory / "redis.log"
        self._command = server_command(directory, self._socket)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}?db=0"
        self.client = Redis.from_url(self.url)  # connects with its first command

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def flush(self) -> None:
        """Empties the server and its append-only file, so that no run pays for the previous one."""
        self.client.flushall()
        self.client.bgrewriteaof()
        while self._aof_is_rewritten():
            time.sleep(0.02)
        self.client.config_resetstat()

    def cpu_seconds(self) -> float:
        """CPU seconds used by the server since its start, with the processes that it forked."""
        info: dict[str, Any] = self.client.info("cpu")
        names = ("used_cpu_user", "used_cpu_sys", "used_cpu_user_children", "used_cpu_sys_children")
        return sum(float(info[name]) for name in names)

    def memory(self) -> int:
        """Bytes that the server has allocated now."""
        return int(self.client.info("memory")["used_memory"])

    def version(self) -> str:
        """The version, such as "Redis 7.0.15"."""
        done = subprocess.run([self._command[0], "--version"], capture_output=True, text=True)
        name = "Valkey" if "valkey" in done.stdout.lower() else "Redis"
        found = re.search(r"v=(\S+)", done.stdout)
        return f"{name} {found[1] if found else '?'}"

    def _aof_is_rewritten(self) -> bool:
        info = self.client.info("persistence")
        return bool(info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])

    def __enter__(self) -> RedisServer:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the benchmark, which stops the server
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        deadline = time.monotonic() + ANSWER_WITHIN
        while not guardian.ask(self._socket, "PING").startswith("+PONG"):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._process.kill()
                self._process.wait()
                words = self._log.read_text(errors="replace")[-1000:]
                raise RuntimeError(f"{self._command[0]} does not start: {words}")
            time.sleep(0.01)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        self.client.close()
        self._process.kill()  # its data is no longer needed
        self._process.wait()
