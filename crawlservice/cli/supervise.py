"""Supervision: the process of ``runcrawler --reload``. It stays small: it imports no Django but the
reloader, and leaves checks of the database and Redis to its masters."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from django.utils.autoreload import get_child_arguments

from crawlframe.base import logs
from crawlframe.base.mounts import network_filesystem
from crawlframe.base.program import ENTRY_POINT, command
from crawlframe.code.package import find_package
from crawlframe.conf import Settings
from crawlframe.embedded.server import ensure_redis
from crawlframe.errors import ConfigError
from crawlframe.node.code import Code
from crawlframe.node.supervisor import reexec
from crawlframe.node.supervisor.git import Follower
from crawlframe.node.supervisor.master_processes import MasterProcesses
from crawlframe.node.supervisor.supervisor import Supervisor
from crawlservice import project
from crawlservice.security.secret import private_directory

FOLLOW_EVERY = 10.0  # seconds between two pulls of the newest revision


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of ``runcrawler``."""
    parser.add_argument("--workers", type=int, help="worker processes (default: CPUs)")
    parser.add_argument("--concurrency", type=int, help="requests in flight per worker (64)")
    parser.add_argument("--node", help="name of this node in the cluster (default: host name)")
    parser.add_argument("--once", action="store_true", help="end when no task is left")
    parser.add_argument(
        "--reload", action="store_true", help="load changed code without losing anything"
    )
    parser.add_argument(
        "--follow",
        metavar="BRANCH",
        help="with --reload: bring this checkout to the newest revision of that branch, and "
        f"to those that `{command('node rollout')}` announces",
    )
    parser.add_argument(
        "--follow-every",
        type=float,
        default=FOLLOW_EVERY,
        metavar="SECONDS",
        help=f"with --follow: time between two pulls (default: {FOLLOW_EVERY:.0f}); 0: only "
        f"what `{command('node rollout')}` announces, for canaries",
    )
    # Between a supervisor and its masters. The first master refuses conditions that later ones can
    # wait for.
    parser.add_argument("--supervised", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--log-fd", type=int, help=argparse.SUPPRESS)
    # A supervisor checks whether it could restart as a new one.
    parser.add_argument("--rehearse", action="store_true", help=argparse.SUPPRESS)


def options_of(words: Sequence[str]) -> dict[str, Any] | None:
    """The options of a ``runcrawler`` that is to supervise; else None, also for words that only
    Django's parser understands: its own options, mistakes, a request for help."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    add_arguments(parser)
    try:
        options, others = parser.parse_known_args(words)
    except argparse.ArgumentError:
        return None
    supervises = options.reload and options.supervised is None and not others
    return vars(options) if supervises else None


def code_of(settings: Settings) -> Code:
    """The places of the spiders and of this framework."""
    start = project.script() or Path(sys.argv[0]).absolute()
    return Code(find_package(settings.spiders) or start.parent / settings.spiders, start)


def supervise(options: Mapping[str, Any]) -> int:
    """Runs the supervisor of a node. Returns its exit code. Raises CrawlframeError."""
    folder = project.directory()
    project.load_environment(folder)
    given = {name: options[name] for name in ("workers", "concurrency", "node")}
    settings = Settings.from_env(**given)
    logs.configure(settings.log_level, settings.node)
    code = code_of(settings)
    filesystem = next(filter(None, map(network_filesystem, code.trees)), "")
    if filesystem:
        print(
            f"note: the code lies on a network file system ({filesystem}), which reports no "
            "changes; it is checked five times a second",
            file=sys.stderr,
        )
    follower = _follower(code, options)
    if not os.environ.get("REDIS_URL", "").strip():
        private_directory(var_dir := folder / settings.var_dir)
        ensure_redis(var_dir)  # it belongs to this process, not to masters that come and go
    supervisor = Supervisor(
        settings,
        MasterProcesses(_command()),
        code,
        polling=bool(filesystem),
        follower=follower,
        follow_every=options["follow_every"],
    )
    return 0 if options["rehearse"] else supervisor.run()


def _command() -> list[str]:
    """The command that this process was started with. The path of the program is absolute, because
    the working directory may have changed by then."""
    script = sys.argv[0]
    if Path(script).name == ENTRY_POINT:
        return [*project.manage_command(), *sys.argv[1:]]
    return [
        str(Path(script).absolute()) if word == script else word for word in get_child_arguments()
    ]


def _follower(code: Code, options: Mapping[str, Any]) -> Follower | None:
    if options["follow"] is None:
        return None
    if code.checkout is None:
        raise ConfigError(
            f"--follow {options['follow']}: {code.spiders} is in no git checkout that "
            "this user may read; clone the repository of the spiders, or leave --follow out"
        )
    if options["follow_every"] < 0:
        raise ConfigError("--follow-every takes seconds, 0 or more")
    return Follower.of(code.checkout, options["follow"], check=not reexec.is_reexecuted())
