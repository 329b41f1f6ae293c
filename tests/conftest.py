"""Fixtures for every test: private servers, fresh databases, and manage.py as a process.

Everything runs on servers of its own; only TEST_DATABASE_URL (or DATABASE_URL) makes the tests use
a PostgreSQL that runs already, in databases of their own that are dropped at the end."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import django
import hypothesis
import psutil
import psycopg2
import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from redis import Redis

from crawlframe.charsets import detection
from crawlframe.embedded.server import ensure_redis
from crawlservice.cli.process_group import die_with_parent
from crawlservice.connections.database_url import database_config
from tests import databases, quick, scheduling, second_try
from tests.crawlservice.receiver import Receiver
from tests.files.s3_server import S3Server
from tests.servers import PostgresServer, RedisServer
from tests.time_limit import TimeLimit

CHECKOUT = Path(__file__).resolve().parent.parent
EXTERNAL_POSTGRES = os.environ.get("TEST_DATABASE_URL") or os.environ.get("DATABASE_URL", "")
LONGEST_WAIT = 90  # seconds; only a test that fails waits for so long, on the busiest machine
OURS = ("DATABASE_URL", "TEST_DATABASE_URL", "REDIS_URL")

COPY = " STRATEGY FILE_COPY"  # cheaper for our small databases, from PostgreSQL 15 on
MEMORY = Path("/dev/shm")
ENOUGH = 4 << 30  # bytes; a whole run needs half of it

_numbers = count(1)

hypothesis.settings.register_profile("tests", deadline=None)  # a busy machine decides nothing
hypothesis.settings.load_profile("tests")


class NewDatabase(Protocol):
    def __call__(self, kind: str, *, empty: bool = False, like: str = "") -> str: ...


def _keep_files_in_memory() -> None:
    """Puts temporary files into memory if the machine has plenty: there, a new database costs a
    tenth of the CPU time, and no test waits for the disk. TMPDIR in the environment prevents it."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return
    place = os.statvfs(MEMORY)
    room = min(place.f_bavail * place.f_frsize, psutil.virtual_memory().available)
    if room >= ENOUGH and not place.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # read the variable again


def _set_up_django() -> str:
    """Sets Django up for every test module, without any of the caller's configuration."""
    for variable in list(os.environ):
        if variable.startswith(("CRAWLFRAME_", "DJANGO_")) or variable in OURS:
            del os.environ[variable]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each process compiles all modules anew
    sys.dont_write_bytecode = False
    var_dir = tempfile.mkdtemp(prefix="cf-tests-")
    os.environ["CRAWLFRAME_VAR_DIR"] = var_dir
    os.environ["CRAWLFRAME_ENV_FILE"] = os.devnull
    os.environ["DJANGO_SETTINGS_MODULE"] = "crawlservice.settings"
    django.setup()
    settings.WHITENOISE_AUTOREFRESH = True  # or each client of a test looks for all static files
    return var_dir


_keep_files_in_memory()
# Now, not in a hook: further conftest.py files import models.
VAR_DIR = _set_up_django()


def pytest_configure(config: pytest.Config) -> None:
    second_try.register(config)
    config.pluginmanager.register(TimeLimit())
    # Fixtures clean up on an exception, so a SIGTERM must become one.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # A shell starts background jobs with SIGINT ignored, which processes of tests would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # So does nohup with SIGHUP: it still ends nothing here, but programs get their default back.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        scheduling.sort(config.rootpath, items)
    databases.choose(items)
    quick.mark(items)
    quick.guard(config)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    return scheduling.processes(config)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> scheduling.Scheduler:
    return scheduling.Scheduler(config, log)


def pytest_unconfigure() -> None:
    shutil.rmtree(VAR_DIR, ignore_errors=True)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A quick run need not import tests that are not quick."""
    return (quick.only(config) and quick.is_slow(collection_path)) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """No collection of garbage looks at thousands of tests, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module", autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forgets modules that the tests of a file wrote and imported, so that other files may write
    some of the same name, and fails the file, not a later one, if it left a connection open."""
    yield
    written = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    for name, module in [*sys.modules.items()]:
        if (getattr(module, "__file__", None) or "").startswith(written):
            del sys.modules[name]
    os.environ.pop("SCRAPY_SETTINGS_MODULE", None)  # set by each project that is opened
    gc.collect()
    gc.freeze()  # later collections need not look at the rest, such as trees of all code


@pytest.fixture(autouse=True)
def no_known_hosts() -> None:
    """Forgets the encodings of the hosts of earlier tests."""
    detection.hosts.clear()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver of webhooks."""
    with closing(Receiver()) as receiver:
        yield receiver


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A private running server. It stops with this process."""
    return ensure_redis(tmp_path_factory.mktemp("redis"))


@pytest.fixture
def redis_client(redis_url: str) -> Iterator[Redis]:
    """A client of the empty server."""
    with Redis.from_url(redis_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Makes running servers that the test may kill; arguments are further server options."""
    servers: list[RedisServer] = []

    def make(*options: str) -> RedisServer:
        server = RedisServer(tmp_path / f"redis{len(servers)}", *options)
        server.start()
        servers.append(server)
        return server

    yield make
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A running PostgreSQL; tests make their own databases in it."""
    if EXTERNAL_POSTGRES.startswith("postgres"):
        yield EXTERNAL_POSTGRES
        return
    server = PostgresServer()
    try:
        server.start()
        yield server.url
    finally:
        server.stop()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with all tables."""
    path = tmp_path_factory.mktemp("sqlite") / "template.sqlite3"
    _migrate(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    """The name of a PostgreSQL database with all tables."""
    with template_on(postgres_url) as name:
        yield name


@pytest.fixture
def new_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewDatabase]:
    """``new_databases`` of one test."""
    with new_databases(request, tmp_path) as make:
        yield make


@contextmanager
def new_databases(request: pytest.FixtureRequest, directory: Path) -> Iterator[NewDatabase]:
    """Makes fresh databases: ``make("sqlite" or "postgres")`` -> URL. They have all tables, or none
    with ``empty=True``, or those and the rows of the database with the URL ``like``, which nothing
    may be connected to."""
    made: list[tuple[str, str]] = []

    def make(kind: str, *, empty: bool = False, like: str = "") -> str:
        number = next(_numbers)
        if kind == "sqlite":
            path = directory / f"test{number}.sqlite3"
            if like:
                shutil.copyfile(like.removeprefix("sqlite:///"), path)
            elif not empty:
                shutil.copyfile(request.getfixturevalue("sqlite_template"), path)
            return f"sqlite:///{path}"
        server: str = request.getfixturevalue("postgres_url")
        name = f"crawlframe_test_{os.getpid()}_{number}"
        if like:
            template = urlsplit(like).path.removeprefix("/")
        else:
            template = "template0" if empty else request.getfixturevalue("postgres_template")
        _postgres(server, f"CREATE DATABASE {name} TEMPLATE {template}", COPY)
        made.append((server, name))
        return _named(server, name)

    yield make
    for server, name in made:
        _postgres(server, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, new_database: NewDatabase) -> str:
    """The URL of a fresh database with all tables, of the kinds that ``databases`` chooses."""
    return new_database(request.param)


@pytest.fixture
def orm(database: str) -> Iterator[str]:
    """Makes Django's models in this process (all its threads) use ``database``."""
    with django_on(database):
        yield database


@pytest.fixture
def no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masters in this process open no socket for a browser host: they do not end as real ones."""
    monkeypatch.setattr("crawlframe.node.master.browser_process.installed", lambda: False)


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """A server of S3 at the address of the environment."""
    server = S3Server()
    for name, value in {
        "AWS_ENDPOINT_URL": server.url, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_DEFAULT_REGION": "nowhere-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    yield server
    server.close()


@pytest.fixture
def settings_with() -> Iterator[Callable[..., None]]:
    """``settings_with(NAME=value)`` changes Django's settings until the end of the test."""
    with ExitStack() as stack:

        def change(**changes: Any) -> None:
            stack.enter_context(override_settings(**changes))

        yield change


@pytest.fixture
def manage_env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment of ``manage`` and ``start_manage``; a test may change it. It names a var
    directory of its own, the empty test Redis, and ``database`` if the test asks for that too."""
    request.getfixturevalue("redis_client")
    env = dict(os.environ)
    env["CRAWLFRAME_VAR_DIR"] = str(tmp_path / "var")
    env["CRAWLFRAME_ALLOW_PRIVATE"] = "127.0.0.0/8"
    env["REDIS_URL"] = request.getfixturevalue("redis_url")
    env["PYTHONUNBUFFERED"] = "1"
    env["CRAWLFRAME_BROWSER_PAGES"] = "0"  # no process besides steward, template and workers
    env["CRAWLFRAME_PREVIEW"] = "off"  # versions that lose callbacks go live
    if "database" in request.fixturenames:
        env["DATABASE_URL"] = request.getfixturevalue("database")
    return env


@pytest.fixture
def manage(manage_env: dict[str, str]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``manage.py`` with these arguments to its end; keywords are ``subprocess.run``'s."""

    def run(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            _command(arguments),
            **{"env": manage_env, "capture_output": True, "text": True, "timeout": 90, **options},
        )

    return run


@dataclass
class Running:
    """A running ``manage.py``, in a process group of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def output(self) -> str:
        """Standard output and error so far."""
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, timeout: float = LONGEST_WAIT) -> None:
        """Returns when the output contains ``text``; fails if it no longer can."""
        deadline = time.monotonic() + timeout
        while text not in self.output:
            ended = self.process.poll() is not None
            if (ended and text not in self.output) or time.monotonic() > deadline:
                pytest.fail(f"no {text!r} in the output of {self.process.args!r}:\n{self.output}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout: float = LONGEST_WAIT) -> int:
        """Signals the command itself and returns its exit status."""
        self.process.send_signal(how)
        return self.process.wait(timeout)


@pytest.fixture
def start_manage(manage_env: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts ``manage.py``, or ``program``, in the background; at the end it is killed with all
    that it started."""
    with programs(manage_env, tmp_path) as start:
        yield start


@contextmanager
def programs(usual_env: dict[str, str], directory: Path) -> Iterator[Callable[..., Running]]:
    """``start_manage`` for one test, within the block."""
    started: list[Running] = []
    family = uuid4().hex

    def start(
        *arguments: object,
        env: dict[str, str] | None = None,
        program: Path | None = None,
        cwd: Path | None = None,
    ) -> Running:
        command = [str(program), *map(str, arguments)] if program else _command(arguments)
        log = directory / f"manage{len(started)}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**(usual_env if env is None else env), "TEST_FAMILY": family},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        started.append(Running(process, log))
        return started[-1]

    yield start
    for running in started:
        running.process.kill()
        running.process.wait()
    _kill_family(family, directory)


def _kill_family(name: str, place: Path) -> None:
    """Kills processes by their name and directory: masters have sessions of their own and outlive
    their supervisors by the grace time, and a Redis overwrites its environment with its title."""
    while True:
        members = []
        for process in psutil.process_iter():
            try:
                words = " ".join(process.cmdline())
                if process.environ().get("TEST_FAMILY") == name or f"{place}/" in words:
                    process.kill()
                    members.append(process)
            except psutil.Error:
                continue
        if not members:
            return
        psutil.wait_procs(members, timeout=1)


def _command(arguments: tuple[object, ...]) -> list[str]:
    return [sys.executable, str(CHECKOUT / "manage.py"), *map(str, arguments)]


@contextmanager
def template_on(server: str) -> Iterator[str]:
    """A PostgreSQL database with all tables, by its name."""
    name = f"crawlframe_test_{os.getpid()}"
    _postgres(server, f"CREATE DATABASE {name}")
    _migrate(_named(server, name))
    yield name
    _postgres(server, f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def django_on(url: str) -> Iterator[None]:
    """Makes Django's default database this URL's, within the block."""
    config = database_config(url, Path(), "crawlframe tests")
    before = connections.settings["default"]
    _use(connections.configure_settings({"default": config})["default"])
    try:
        yield
    finally:
        _use(before)


def _use(settings: dict[str, Any]) -> None:
    connections.close_all()
    connections.settings["default"] = settings
    connections["default"] = connections.create_connection("default")


def _migrate(url: str) -> None:
    with django_on(url):
        call_command("migrate", interactive=False, verbosity=0)


def _postgres(server: str, statement: str, from_15: str = "") -> None:
    connection = psycopg2.connect(server)
    try:
        connection.autocommit = True
        if connection.server_version >= 150000:
            statement += from_15
        connection.cursor().execute(statement)
    finally:
        connection.close()


def _named(server: str, database: str) -> str:
    return urlunsplit(urlsplit(server)._replace(path=f"/{database}"))
