"""Start-up checks, on real servers where one can be made wrong, else on simulated answers."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from django.db import connection
from redis import Redis, RedisCluster

from crawlframe.base.mounts import network_filesystem
from crawlframe.errors import ConfigError
from crawlservice.connections.database import check_database
from crawlservice.connections.redis_checks import check_info, check_redis
from tests.conftest import django_on
from tests.servers import free_port

SOUND = {
    "redis_version": "8.2.2",
    "role": "master",
    "aof_enabled": 1,
    "maxmemory": 0,
    "maxmemory_policy": "noeviction",
    "cluster_enabled": 0,
}


def test_our_own_server_is_sound(redis_client):
    assert check_redis(redis_client) == []


def test_settings_that_lose_data_are_warnings(redis_server):
    with Redis.from_url(redis_server("--appendonly", "no").url) as client:
        (warning,) = check_redis(client)
        assert "append-only file" in warning
        assert "appendonly yes" in warning
    with Redis.from_url(redis_server("--appendfsync", "no").url) as client:
        (warning,) = check_redis(client)
        assert "appendfsync everysec" in warning


def test_an_evicting_server_is_refused(redis_server):
    server = redis_server("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with (
        Redis.from_url(server.url) as client,
        pytest.raises(ConfigError, match=r"allkeys-lru.*set maxmemory-policy noeviction"),
    ):
        check_redis(client)


def test_eviction_without_a_limit_never_happens(redis_server):
    with Redis.from_url(redis_server("--maxmemory-policy", "allkeys-lru").url) as client:
        assert check_redis(client) == []


def test_a_replica_is_refused(redis_server):
    server = redis_server("--replicaof", "127.0.0.1 1")
    with (
        Redis.from_url(server.url) as client,
        pytest.raises(ConfigError, match=r"replica of 127.0.0.1:1.*its primary"),
    ):
        check_redis(client)


def test_a_cluster_node_is_refused(redis_server):
    server = redis_server("--cluster-enabled", "yes")
    with Redis.from_url(server.url) as client, pytest.raises(ConfigError, match="of a cluster"):
        check_redis(client)


def test_all_of_a_cluster_is_looked_at(redis_server):
    port = free_port()
    server = redis_server("--port", str(port), "--cluster-enabled", "yes", "--appendonly", "no")
    with Redis.from_url(server.url) as client:
        client.execute_command("CLUSTER", "ADDSLOTS", *range(16384))
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            time.sleep(0.02)
        with RedisCluster("127.0.0.1", port) as cluster:
            assert "appendonly yes" in check_redis(cluster)[0]
            client.execute_command("ACL SETUSER", "default", "-@scripting")
            with pytest.raises(ConfigError, match="Redis forbids"):
                check_redis(cluster)


def test_a_server_that_went_away_is_refused_in_plain_words(redis_server):
    server = redis_server()
    with Redis.from_url(server.url) as client:
        server.kill()
        with pytest.raises(ConfigError, match="correct REDIS_URL"):
            check_redis(client)


def test_a_server_that_forbids_config_is_fine(redis_server):
    server = redis_server("--rename-command", "CONFIG", "")
    with Redis.from_url(server.url) as client:
        assert check_redis(client) == []


@pytest.mark.parametrize(
    ("rights", "word"),
    [
        ("+@all ~* -@scripting", "evalsha"),
        ("+@all ~* -script", "script"),
        ("+@all ~other:*", "access (a key|one of the keys)"),
        ("+@all ~* -set", "(executing the script|ACL failure in script)"),
        ("+@all ~* -info", "info"),
    ],
)
def test_a_user_without_our_rights_is_refused(redis_client, redis_url, rights, word):
    redis_client.execute_command("ACL SETUSER", "guest", "reset", "on", ">x", *rights.split())
    redis_client.script_flush()
    with (
        Redis.from_url(redis_url.replace("unix://", "unix://guest:x@")) as client,
        pytest.raises(ConfigError, match=rf"Redis forbids .*{word}.*ACL SETUSER"),
    ):
        check_redis(client)


def test_a_server_without_scripts_is_refused(redis_server):
    server = redis_server("--rename-command", "EVALSHA", "")
    with (
        Redis.from_url(server.url) as client,
        pytest.raises(ConfigError, match="unknown command 'EVALSHA'"),
    ):
        check_redis(client)


def test_a_server_that_is_full_now_is_no_reason_to_refuse(redis_server):
    with Redis.from_url(redis_server("--maxmemory", "1").url) as client:
        assert check_redis(client) == []


def test_holes_in_lua_matter_where_others_reach_the_server(redis_server):
    port = free_port()
    server = redis_server("--port", str(port))
    with Redis.from_url(server.url) as near, Redis(port=port) as far:
        warnings = check_redis(far)
        assert warnings == check_info(near.info(), private=False)
        assert check_redis(near) == []


@pytest.mark.parametrize("version", ["5.0.14", "6.0.16", "6.1.99"])
def test_old_servers_are_refused(version):
    with pytest.raises(ConfigError, match=rf"version {version}.*upgrade"):
        check_info({**SOUND, "redis_version": version}, private=False)


@pytest.mark.parametrize(
    ("version", "warned"),
    [
        ("6.2.19", True),
        ("6.2.20", False),
        ("7.0.15", True),
        ("7.2.10", True),
        ("7.2.11", False),
        ("7.4.6", False),
        ("8.0.3", True),
        ("8.1.0", True),
        ("8.2.1", True),
        ("8.2.2", False),
        ("8.4.0", False),
        ("9.0.0", False),
    ],
)
def test_holes_in_lua_are_known_by_version(version, warned):
    info = {**SOUND, "redis_version": version}
    assert [("CVE-2025-49844" in line) for line in check_info(info, private=False)] == [
        True
    ] * warned
    assert check_info(info, private=True) == []


def test_valkey_counts_its_own_versions():
    old = {**SOUND, "redis_version": "7.2.4", "valkey_version": "8.0.5"}
    assert "Valkey 8.0.5" in check_info(old, private=False)[0]
    assert check_info({**old, "valkey_version": "9.1.2"}, private=False) == []


MOUNTS = {
    "/": "ext4", "/home": "nfs4", "/home/local": "tmpfs", "/mnt/my share": "cifs",
    "/data": "fuse.sshfs", "/over": "ext4", "/over/": "nfs",
}  # fmt: skip


def mount(monkeypatch: pytest.MonkeyPatch, kinds: dict[str, str]) -> None:
    """A later mount on one point is written with a slash."""
    found = [SimpleNamespace(mountpoint=p.rstrip("/") or p, fstype=k) for p, k in kinds.items()]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: found)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/srv/var", ""),
        ("/home/me/var", "nfs4"),
        ("/home/local/var", ""),
        ("/homely/var", ""),
        ("/mnt/my share/var", "cifs"),
        ("/data", "fuse.sshfs"),
        ("/over/var", "nfs"),
    ],
)
def test_network_file_systems_are_seen(monkeypatch, path, kind):
    mount(monkeypatch, MOUNTS)
    assert network_filesystem(Path(path)) == kind


def test_sqlite_on_a_network_file_system_is_refused(monkeypatch, new_database):
    mount(monkeypatch, {"/": "nfs4"})
    with (
        django_on(new_database("sqlite")),
        pytest.raises(ConfigError, match=r"\(nfs4\).*CRAWLFRAME_VAR_DIR, or PostgreSQL"),
    ):
        check_database(connection)


def test_an_old_sqlite_is_refused(monkeypatch, new_database):
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    with (
        django_on(new_database("sqlite")),
        pytest.raises(ConfigError, match=r"too old; use a Python with 3\.35"),
    ):
        check_database(connection)


def test_this_machine_can_be_asked(tmp_path):
    assert network_filesystem(tmp_path) == ""
