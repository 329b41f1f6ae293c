"""Start-up checks, on real servers where one can be made wrong, else on what a server would say."""

from __future__ import annotations

import pytest
from redis import Redis

from crawlframe.errors import ConfigError
from crawlservice.checks import check_info, check_redis, network_filesystem

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


MOUNTS = r"""
/dev/vda / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
tmpfs /home/local tmpfs rw 0 0
//box/share /mnt/my\040share cifs rw 0 0
host:/data /data fuse.sshfs rw 0 0
/dev/vdb /over ext4 rw 0 0
server:/over /over nfs rw 0 0
"""


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
def test_network_file_systems_are_seen(path, kind):
    from pathlib import Path

    assert network_filesystem(Path(path), MOUNTS) == kind


def test_this_machine_can_be_asked(tmp_path):
    assert network_filesystem(tmp_path) == ""
