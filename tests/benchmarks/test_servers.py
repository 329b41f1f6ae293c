"""The servers of the benchmarks, real ones."""

from __future__ import annotations

from contextlib import closing
from urllib.request import urlopen

import psutil
import psycopg2
import pytest

from benchmarks.lab.nginx import Nginx, find_program
from benchmarks.lab.postgres import Postgres
from benchmarks.lab.redis import RedisServer

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def postgres():
    with Postgres(fsync="off") as server:
        yield server


def query(dsn, statement):
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else None


@pytest.mark.postgres
def test_every_database_is_new_or_a_copy(postgres):
    first = postgres.new_database()
    query(first, "CREATE TABLE mark (number int)")
    query(first, "INSERT INTO mark VALUES (7)")
    assert query(postgres.new_database(first), "SELECT number FROM mark") == [(7,)]
    assert query(postgres.new_database(), "SELECT to_regclass('mark')") == [(None,)]
    postgres.drop(first)
    with pytest.raises(psycopg2.OperationalError, match="does not exist"):
        query(first, "SELECT 1")


@pytest.mark.postgres
def test_cpu_of_backends_that_ended_is_counted(postgres):
    backends = psutil.Process(postgres.pid)
    before = postgres.cpu_seconds()
    dsn = postgres.dsn("postgres")
    count = len(backends.children())
    query(dsn, "SET max_parallel_workers_per_gather = 0")
    for _ in range(2):
        query(dsn, "SELECT count(*) FROM generate_series(1, 1000000)")
    while len(backends.children()) > count:
        pass
    ended = postgres.cpu_seconds() - before
    assert ended > 0.05  # two million rows; a server that does nothing takes none
    assert ended < 5


def test_redis_is_emptied_with_its_file_and_tells_what_it_took(tmp_path):
    with RedisServer(tmp_path / "redis") as redis:
        redis.client.set("key", "x" * (4 << 20))
        assert redis.memory() > 4 << 20
        before = redis.cpu_seconds()
        redis.client.eval("local n = 0 for i = 1, 5000000 do n = n + i end return n", 0)
        assert redis.cpu_seconds() > before
        redis.flush()
        assert redis.client.dbsize() == 0
        files = (tmp_path / "redis").rglob("*aof")
        assert sum(path.stat().st_size for path in files) < 1000
        pid = redis.pid
    assert not psutil.pid_exists(pid)


@pytest.fixture
def nginx_work(tmp_path):
    try:
        find_program()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.html").write_text("<p>x")
    return tmp_path


def test_nginx_serves_and_keeps_a_log_only_if_asked(nginx_work):
    root = nginx_work / "root"
    with Nginx(root, nginx_work) as nginx:
        with urlopen(f"{nginx.url}a.html") as response:
            assert response.read() == b"<p>x"
            assert response.headers.get_content_type() == "text/html"
        assert [(hit.uri, hit.status, hit.bytes) for hit in nginx.hits("Python")] == [
            ("/a.html", 200, 4)
        ]
    silent = nginx_work / "silent"
    silent.mkdir()
    with Nginx(root, silent, log=False) as nginx:
        urlopen(f"{nginx.url}a.html").close()
        with pytest.raises(ValueError, match="log=False"):
            nginx.hits("Python")
    assert not (silent / "access.log").exists()


def test_a_configuration_that_nginx_refuses_is_reported(nginx_work):
    with (
        pytest.raises(RuntimeError, match='unknown directive "nonsense"'),
        Nginx(nginx_work / "root", nginx_work, locations="nonsense;\n"),
    ):
        pass
