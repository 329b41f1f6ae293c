"""How gunicorn serves the web: ``gunicorn -c python:crawlservice.web.server``, or in a checkout
``gunicorn -c crawlservice/web/server.py``; ``up`` uses it, too.

In a checkout it is read before gunicorn can import the rest of it. The same processes serve static
files (whitenoise): no second server is needed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

# This file may be loaded by its path.
sys.path[:0] = [place for place in [str(Path(__file__).parents[2])] if place not in sys.path]

from crawlservice import project  # noqa: E402

project.load_environment(project.directory())


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, "").strip() or str(default)
    if not text.isdecimal() or not int(text):
        raise SystemExit(f"error: {variable}={text!r} must be a whole number above 0")
    return int(text)


def post_worker_init(worker: Any) -> None:
    """Called in each process, which can import the project by now: makes the first one warn of
    unknown settings, and all of them watch that a node leads."""
    from crawlservice.alerts.leader_watch import LeaderWatch

    LeaderWatch().start()
    if worker.age == 1:
        from crawlservice.environment import warnings

        for line in warnings(os.environ):
            worker.log.warning(line)


wsgi_app = "crawlservice.wsgi"
bind = os.environ.get("CRAWLFRAME_BIND", "").strip() or "127.0.0.1:8000"
workers = _number("CRAWLFRAME_WEB_PROCESSES", 2)
worker_class = "crawlservice.web.worker.WebWorker"
# A stream of events holds a thread as long as it is read. A waiting thread costs little.
threads = _number("CRAWLFRAME_WEB_THREADS", 16)
worker_connections = 4000  # of each process; a slow one costs some kilobytes
timeout = 60  # seconds a process may be silent before it is killed; its requests may take longer
graceful_timeout = 15  # seconds to finish answers when it is asked to stop
keepalive = 30  # seconds; longer than a proxy in front waits between two requests
max_requests, max_requests_jitter = 50_000, 5_000  # then a process is replaced
# A heartbeat on a slow disk would look like a hanging process.
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None
control_socket_disable = True  # it would be one for all servers of this user
loglevel = "warning"
accesslog = None  # setup links in addresses are secret


def when_ready(server: Any) -> None:
    """Called by gunicorn when it listens and has no process yet: prints where, or refuses."""
    from crawlservice.security import exposure

    names = [listener.sock.getsockname() for listener in server.LISTENERS]
    hosts = [str(name[0]) if isinstance(name, tuple) else f"/{name!s}" for name in names]
    if found := exposure.refusal(hosts):
        raise SystemExit(f"error: {found}")
    os.environ[exposure.CHECKED] = "1"
    places = ", ".join(str(listener) for listener in server.LISTENERS)
    print(f"The web listens at {places}", flush=True)
