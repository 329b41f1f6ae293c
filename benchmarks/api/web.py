"""Web: the service's web server under the meter, as ``manage.py up`` runs it."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import requests

from benchmarks.lab.meter import Metered
from benchmarks.lab.node import CHECKOUT, NODE_TIMEOUT, environment, manage

PROCESSES, THREADS = 2, 8
USER = """
from django.contrib.auth.models import Group, User
user = User.objects.create_user("bench", password="{}", is_staff=True)
user.groups.add(Group.objects.get(name="{}"))
"""


class Web:
    """``with Web(var, dsn, redis) as web: web.host, web.port, web.token``; the token may submit,
    its user has the role."""

    def __init__(self, var: Path, dsn: str, redis: str, role: str = "submitter") -> None:
        var.mkdir(parents=True, exist_ok=True)
        self._role, self._password = role, secrets.token_hex()
        self._env = {**environment(var, dsn, redis), "CRAWLFRAME_API_RATE": "1000000"}
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.host, self.port = taken.getsockname()
        command = [sys.executable, "-m", "gunicorn", "-c", "crawlservice/web/server.py", "--bind",
                   f"{self.host}:{self.port}", "--workers", str(PROCESSES), "--threads",
                   str(THREADS)]  # fmt: skip
        self.run = Metered(command, var / "web.log", cwd=CHECKOUT, env=self._env)

    def __enter__(self) -> Web:
        self._told(manage(self._env, "shell", "-c", USER.format(self._password, self._role)))
        made = manage(self._env, "token", "add", "bench", "--name", "bench", "--scope", "submit")
        self.token = self._told(made).strip()
        self.run.__enter__()
        deadline = time.monotonic() + NODE_TIMEOUT
        while not self._answers():
            if not self.run.lives() or time.monotonic() > deadline:
                problem = self.run.problem("does not answer")
                self.run.__exit__(None, None, None)
                raise problem
            time.sleep(0.05)
        return self

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def logged_in(self) -> requests.Session:
        """An HTTP session of the user, logged in."""
        session, login = requests.Session(), f"{self.url}/admin/login/"
        session.get(login)
        form = {"username": "bench", "password": self._password,
                "csrfmiddlewaretoken": session.cookies["csrftoken"]}  # fmt: skip
        answer = session.post(login, form, headers={"Referer": login}, allow_redirects=False)
        if answer.status_code != 302:
            raise RuntimeError(f"the login is answered with {answer.status_code}")
        return session

    def _answers(self) -> bool:
        try:
            socket.create_connection((self.host, self.port), timeout=5).close()
        except OSError:
            return False
        return True

    def _told(self, done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode:
            raise RuntimeError(f"{done.args}: {done.stderr[-2000:]}")
        return done.stdout

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.run.__exit__(kind, error, trace)
