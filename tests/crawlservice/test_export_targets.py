"""Targets of exports: tables, HTTP and Kafka, each without loss and double rows wherever the
process dies."""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import json
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg2
import pytest
from django.conf import settings as django_settings

from crawlframe.conf import Settings
from crawlservice.exports import changes, exporter
from crawlservice.exports.addresses import BadExport, with_secrets_of, without_secrets
from crawlservice.exports.dialects import MySQL, connect
from crawlservice.exports.exporter import tried
from crawlservice.exports.target import Limits
from crawlservice.exports.targets.table import names
from crawlservice.models import Export, Installation, Item, Task
from tests.conftest import NewDatabase
from tests.crawlservice.exporting import add, commit, drive, fill, made_task, stored
from tests.crawlservice.receiver import Receiver, Told, verify
from tests.crawlservice.test_exports import POINTS, Killed, kill_at

pytestmark = pytest.mark.usefixtures("orm")

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1"))
OPEN = Settings(webhook_private=(ipaddress.ip_network("127.0.0.0/8"),))
MYSQL = os.environ.get("TEST_MYSQL_URL", "")  # such as mysql://root:secret@127.0.0.1:3306/test

SECRET = "whsec_c2VjcmV0IG9mIHRoZSBleHBvcnQ="
Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(autouse=True)
def servers_of_this_machine(settings_with: Callable[..., None]) -> None:
    node = django_settings.CRAWLFRAME
    settings_with(CRAWLFRAME=dataclasses.replace(node, webhook_private=LOOPBACK))


# -- tables ---------------------------------------------------------------------------------------


@pytest.fixture
def postgres(new_database: NewDatabase, postgres_url: str) -> Iterator[tuple[str, Query]]:
    """An empty PostgreSQL database, and how to ask it."""
    url = new_database("postgres", empty=True)
    connection = psycopg2.connect(url)
    connection.autocommit = True

    def ask(statement: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    # The address of a socket directory is no host; a target names one.
    parts = urlsplit(url)
    host = dict(pair.split("=", 1) for pair in parts.query.split("&") if pair).get("host", "")
    yield table_url(url, host), ask
    connection.close()


def table_url(url: str, directory: str) -> str:
    if not directory:
        return url
    parts = urlsplit(url)
    user = parts.username or "crawlframe"
    quoted = directory.replace("/", "%2F")
    return f"postgresql://{user}@{quoted}{parts.path}"


@pytest.fixture
def mysql() -> Iterator[tuple[str, Query]]:
    """An empty MySQL database, if the environment names a server."""
    if not MYSQL:
        pytest.skip("TEST_MYSQL_URL names no server")
    import pymysql

    parts = urlsplit(MYSQL)
    name = f"exports_{uuid.uuid4().hex[:8]}"
    connection = pymysql.connect(
        host=parts.hostname,
        port=parts.port or 3306,
        user=parts.username,
        password=parts.password or "",
        autocommit=True,
    )

    def ask(statement: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(statement)
            return [*cursor.fetchall()]

    ask(f"CREATE DATABASE {name}")
    connection.select_db(name)
    yield parts._replace(path=f"/{name}").geturl(), ask
    ask(f"DROP DATABASE {name}")
    connection.close()


@pytest.fixture(params=[pytest.param("postgres", marks=pytest.mark.postgres), "mysql"])
def server(request: pytest.FixtureRequest) -> tuple[str, Query]:
    found: tuple[str, Query] = request.getfixturevalue(request.param)
    return found


def table(url: str, **more: Any) -> dict[str, Any]:
    return {"kind": "table", "url": url, "table": "houses", **more}


def test_a_table_is_made_and_extended(server: tuple[str, Query]) -> None:
    url, ask = server
    task = made_task()
    commit(task, "a", [{"n": 1, "price": 5, "tags": ["x"], "new": True, "none": None}])
    export = add(table(url))
    assert drive(export).problem == ""
    commit(task, "b", [{"n": 2, "price": 1.5, "extra": "é%s"}, {"n": "three", "price": None}])
    assert drive(export).problem == ""
    rows = ask("SELECT n, price, extra, tags FROM houses ORDER BY _item")
    tags = ["x"] if url.startswith("postgres") else '["x"]'
    assert rows == [("1", 5.0, None, tags), ("2", 1.5, "é%s", None), ("three", None, None, None)]
    assert len(ask("SELECT _key, _item, _task, _spider, _request, _position FROM houses")) == 3
    drive(export)
    changes.restart(export, "beginning")
    assert drive(export).rows == 3
    assert len(ask("SELECT _key FROM houses")) == 3
    commit(task, "c", [{"none": {"a": 1}}])
    assert drive(export).problem == ""
    assert len(ask("SELECT none FROM houses WHERE none IS NOT NULL")) == 1


def test_a_column_is_changed_however_long_that_takes(
    server: tuple[str, Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The usual limit applies again to later statements."""
    url, ask = server
    commit(made_task(), "a", [{"n": 1}])
    assert drive(add(table(url))).problem == ""
    with contextlib.closing(connect(url)) as dialect:
        waited: list[Any] = []
        if isinstance(dialect, MySQL):
            real = dialect._connect

            def patient(timeout: int | None) -> Any:
                waited.append(timeout)
                return real(timeout)

            monkeypatch.setattr(dialect, "_connect", patient)
        limit = "SHOW statement_timeout"
        dialect.widen("houses", "n", "text")
        waited += [] if waited else [None if dialect.execute(limit) == [("0",)] else 1]
        dialect.commit()
        assert waited == [None]
        assert isinstance(dialect, MySQL) or dialect.execute(limit) == [("2min",)]
        assert dialect.columns("houses")["n"] == "text"
    assert ask("SELECT n FROM houses") == [("1",)]


def test_fields_may_have_signs_of_sql(server: tuple[str, Query]) -> None:
    url, ask = server
    commit(made_task(), "a", [{"share %": 1, "%s": "x%", 'a"b`c': 2, "a.b": 3}])
    assert drive(add(table(url))).problem == ""
    (row,) = ask("SELECT * FROM houses")
    assert {1, 2, 3, "x%"} <= {*row}


@pytest.mark.parametrize("point", POINTS)
def test_wherever_it_dies_a_table_has_every_row_once(
    server: tuple[str, Query], monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    url, ask = server
    monkeypatch.setattr(
        "crawlservice.exports.targets.table.TableWriter.limits",
        Limits(4, 1 << 20, columns=500),
    )
    fill(made_task(), 4)
    export = add(table(url))
    with monkeypatch.context() as patch:
        kill_at(patch, point, 2)
        with pytest.raises(Killed):
            drive(export)
    fill(Task.objects.get(), 1, start=7)
    assert drive(export).problem == ""
    assert [n for (n,) in ask("SELECT n FROM houses ORDER BY _item")] == stored()


def test_a_table_is_tried_without_a_row(server: tuple[str, Query]) -> None:
    url, ask = server
    export = add(table(url))
    assert [tried(export, OPEN), tried(export, OPEN)] == ["", ""]
    assert ask("SELECT * FROM houses") == []
    fill(made_task(), 1)
    drive(export)
    assert tried(export, OPEN) == ""
    assert len(ask("SELECT * FROM houses")) == 3


def test_a_table_that_must_not_be_written_is_told(postgres: tuple[str, Query]) -> None:
    url, ask = postgres
    ask("CREATE TABLE houses (_key varchar(64) PRIMARY KEY)")
    ask("CREATE ROLE tried_reader LOGIN PASSWORD 'hidden-word'")
    ask("GRANT SELECT ON houses TO tried_reader")
    try:
        parts = urlsplit(url)
        netloc = f"tried_reader:hidden-word@{parts.netloc.rpartition('@')[2]}"
        problem = tried(add(table(parts._replace(netloc=netloc).geturl())), OPEN)
        assert "tried_reader" in problem or "permission denied" in problem
        assert "hidden-word" not in problem
    finally:
        ask("DROP OWNED BY tried_reader")
        ask("DROP ROLE tried_reader")


def test_a_table_of_others_is_refused(postgres: tuple[str, Query]) -> None:
    url, ask = postgres
    ask("CREATE TABLE houses (id int primary key)")
    fill(made_task(), 1)
    assert "its primary key is not _key; name another" in drive(add(table(url))).problem


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_options_that_hold_secrets_or_files_are_refused(scheme: str) -> None:
    for option in ("password=x", "passfile=/p", "sslpassword=", "host=b", "%70assword=x"):
        with pytest.raises(BadExport, match="cannot be used here, only"):
            add(table(f"{scheme}://ann@db.example/x?ssl=true&{option}"))
    assert not Export.objects.exists()


def test_passwords_of_the_node_are_sent_nowhere(
    postgres: tuple[str, Query], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:*:of the node's home\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    for given in ("of the environment", ""):
        monkeypatch.setenv("PGPASSWORD", given)
        with contextlib.closing(connect(f"{postgres[0]}?sslmode=prefer")) as dialect:
            assert dialect._connection.info.password == ""
    monkeypatch.delenv("PGPASSWORD")
    with contextlib.closing(connect(postgres[0])) as dialect:
        assert dialect._connection.info.password == ""


def test_a_password_is_masked_wherever_it_could_appear() -> None:
    fill(made_task(), 1)
    export = add(table("postgresql://ann:hush-hush@127.0.0.1:1/x"))
    row = drive(export)
    assert "OperationalError" in row.problem
    assert row.target["url"] == "postgresql://ann:********@127.0.0.1:1/x"
    for text in (row.problem, json.dumps(row.target), row.sealed, row.last_batch):
        assert "hush" not in text


def test_only_the_query_of_an_http_address_is_a_secret() -> None:
    url = "https://ann:pw@a.example/in?token=t"
    assert without_secrets(url) == "https://ann:********@a.example/in?********"
    assert with_secrets_of("https://ann:********@a.example/x?********", url) == (
        "https://ann:pw@a.example/x?token=t"
    )
    assert with_secrets_of("https://ann:new@a.example/in?********", url) is not None
    for other in ("https://b.example/in?********", "https://ann:pw@a.example:81/in?********"):
        assert with_secrets_of(other, url) is None
    assert with_secrets_of("https://a.example/?********", "https://a.example/") is None
    dsn = "postgresql://ann:pw@a.example/x?sslmode=prefer"
    assert without_secrets(dsn) == "postgresql://ann:********@a.example/x?sslmode=prefer"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["a", "A", "a_2"], ["a", "A_2", "a_2_2"]),
        (["x" * 70, "x" * 80], ["x" * 63, "x" * 61 + "_2"]),
        (["é" * 40], ["é" * 31]),
        (["", "_"], ["_", "__2"]),
    ],
)
def test_each_field_has_a_column_of_its_own(fields: list[str], expected: list[str]) -> None:
    assert [*names(fields, 63).values()] == expected


# -- HTTP -----------------------------------------------------------------------------------------


def http(receiver: Receiver, **more: Any) -> dict[str, Any]:
    return {"kind": "http", "url": receiver.url, "secret": SECRET, "max_rows": 4, **more}


def rows(told: Told) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.body.splitlines()]


def test_batches_are_signed_and_have_a_key(receiver: Receiver) -> None:
    fill(made_task(), 3)
    row = drive(add(http(receiver)), node=OPEN)
    assert (row.rows, row.batches, row.problem) == (9, 3, "")
    first = receiver.told[0]
    assert [one["n"] for told in receiver.told for one in rows(told)] == stored()
    assert first.headers["Content-Type"] == "application/x-ndjson"
    assert first.headers["Idempotency-Key"] == first.headers["webhook-id"]
    assert first.headers["Idempotency-Key"].endswith(f".houses.{row.pk}.1.{1:012d}-{4:012d}")
    assert verify(first, SECRET)


def test_an_address_is_tried_with_an_empty_batch(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    export = add(http(receiver))
    assert tried(export, OPEN) == ""
    (told,) = receiver.told
    assert (told.body, verify(told, SECRET)) == (b"", True)
    assert told.headers["Idempotency-Key"].endswith(f".houses.{export.pk}.0.{0:012d}-{0:012d}")
    receiver.answers["/"] = 500
    assert tried(export, OPEN).startswith("it answered 500")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(exporter, "TRIAL", 1)
        target = http(receiver, url=f"http://127.0.0.1:{silent.getsockname()[1]}/")
        assert tried(add(target, name="silent"), OPEN) == "no answer within 1 s"


def test_a_batch_may_be_a_json_list(receiver: Receiver) -> None:
    fill(made_task(), 1)
    drive(add(http(receiver, format="json")), node=OPEN)
    (told,) = receiver.told
    assert [one["n"] for one in told.content] == stored()
    assert told.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("point", POINTS)
def test_wherever_it_dies_a_repeated_batch_has_the_same_key_and_rows(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    fill(made_task(), 3)
    export = add(http(receiver))
    with monkeypatch.context() as patch:
        kill_at(patch, point, 2)
        with pytest.raises(Killed):
            drive(export, node=OPEN)
    fill(Task.objects.get(), 1, start=5)
    drive(export, node=OPEN)
    by_key: dict[str, bytes] = {}
    for told in receiver.told:
        assert by_key.setdefault(told.headers["Idempotency-Key"], told.body) == told.body
    found = [json.loads(line)["n"] for body in by_key.values() for line in body.splitlines()]
    assert found == stored()


def test_an_address_that_is_not_public_is_refused(receiver: Receiver) -> None:
    fill(made_task(), 1)
    assert "CRAWLFRAME_WEBHOOK_PRIVATE" in drive(add(http(receiver))).problem
    assert receiver.told == []


def test_an_answer_that_is_no_success_is_a_problem(receiver: Receiver) -> None:
    receiver.answers["/"] = 500
    fill(made_task(), 1)
    row = drive(add(http(receiver)), node=OPEN)
    assert row.problem.startswith("it answered 500")
    assert row.rows == 0


# -- Kafka ----------------------------------------------------------------------------------------


@pytest.fixture
def kafka() -> Iterator[str]:
    """librdkafka's own cluster, in this process; it knows transactions but does not undo them."""
    confluent = pytest.importorskip("confluent_kafka")
    owner = confluent.Producer({"bootstrap.servers": "none", "test.mock.num.brokers": 1})
    brokers = owner.list_topics(timeout=10).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    owner.flush(1)


def read_topic(servers: str, topic: str, count: int) -> list[Any]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Any] = []
    with contextlib.closing(consumer):
        while len(found) < count and (message := consumer.poll(10)) is not None:
            if not message.error():
                found.append(message)
        while (message := consumer.poll(0.5)) is not None:
            found.append(message)
    return found


def test_batches_are_transactions_of_kafka(kafka: str) -> None:
    fill(made_task(), 3)
    target = {"kind": "kafka", "servers": kafka, "topic": "houses"}
    row = drive(add(target))
    assert (row.rows, row.problem) == (9, "")
    found = read_topic(kafka, "houses", 9)
    assert sorted(json.loads(message.value())["n"] for message in found) == stored()
    keys = {message.key().decode() for message in found}
    assert keys == {f"{item.rid.hex}-{item.ordinal}" for item in Item.objects.all()}


def test_the_topic_is_asked_for(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"kind": "kafka", "servers": kafka, "topic": "houses"}
    export = add(target)
    fill(made_task(), 1)
    drive(export)
    assert tried(export, OPEN) == ""
    monkeypatch.setattr("crawlservice.exports.exporter.TRIAL", 1)
    away = add({**target, "servers": "127.0.0.1:1"}, name="away")
    assert tried(away, OPEN)


def test_what_kafka_has_is_not_sent_again(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node died after the transaction and before it recorded that. The group says how far it is;
    the mock cluster keeps no offsets of transactions, so it is told in the test."""
    from confluent_kafka import Consumer, TopicPartition

    fill(made_task(), 2)
    export = add({"kind": "kafka", "servers": kafka, "topic": "houses"})
    with monkeypatch.context() as patch:
        kill_at(patch, "export.cursor.before")
        with pytest.raises(Killed):
            drive(export)
    installation = Installation.objects.get().uuid
    group = f"crawlframe-export.{installation}.houses.{export.pk}.1"
    with contextlib.closing(Consumer({"bootstrap.servers": kafka, "group.id": group})) as consumer:
        place = TopicPartition("houses", 0, Item.objects.latest("pk").pk)
        consumer.commit(offsets=[place], asynchronous=False)
    row = drive(export)
    assert (row.rows, row.problem) == (6, "")
    found = read_topic(kafka, "houses", 6)
    assert sorted(json.loads(message.value())["n"] for message in found) == stored()


def test_offsets_of_a_deleted_export_of_the_name_are_not_its_own(
    kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import confluent_kafka

    groups: list[str] = []
    real = confluent_kafka.Consumer

    def consumer(options: dict[str, Any]) -> Any:
        groups.append(options["group.id"])
        return real(options)

    fill(made_task(), 2)
    target = {"kind": "kafka", "servers": kafka, "topic": "houses"}
    deleted = add(target)
    with monkeypatch.context() as patch:
        patch.setattr(confluent_kafka, "Consumer", consumer)
        drive(deleted)
    options = {"bootstrap.servers": kafka, "group.id": groups[-1]}
    with contextlib.closing(real(options)) as reader:  # as its transaction would have done
        place = confluent_kafka.TopicPartition("houses", 0, Item.objects.latest("pk").pk)
        reader.commit(offsets=[place], asynchronous=False)
    changes.delete(deleted)
    drive(add(target))
    assert len(read_topic(kafka, "houses", 12)) == 12


def test_an_export_that_is_on_its_way_needs_no_group(kafka: str) -> None:
    """Its place in the database suffices to continue; the group is asked about one batch."""
    task = made_task()
    fill(task, 2)
    export = add({"kind": "kafka", "servers": kafka, "topic": "houses"})
    Export.objects.update(position=Item.objects.latest("pk").pk, rows=6)
    fill(task, 1, start=5)
    assert drive(export).rows == 9
    assert len(read_topic(kafka, "houses", 3)) == 3


def test_the_transaction_commits_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of calls: the recorded place belongs to the transaction of the messages."""
    confluent = pytest.importorskip("confluent_kafka")
    calls: list[Any] = []

    class Producer:
        def __init__(self, options: dict[str, Any]) -> None:
            calls.append(options["transactional.id"].split(".", 2)[0])

        def __getattr__(self, name: str) -> Callable[..., None]:
            return lambda *rest, **more: calls.append(
                (name, rest[0][0].offset) if name == "send_offsets_to_transaction" else name
            )

    class Consumer:
        def __init__(self, options: dict[str, Any]) -> None:
            calls.append(options["group.id"].split(".", 2)[0])

        def committed(self, places: list[Any], timeout: float) -> list[Any]:
            calls.append("committed")
            return places

        def consumer_group_metadata(self) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(confluent, "Producer", Producer)
    monkeypatch.setattr(confluent, "Consumer", Consumer)
    fill(made_task(), 1, each=2)
    drive(add({"kind": "kafka", "servers": "localhost:1", "topic": "houses"}))
    assert [call for call in calls if call not in ("poll", "flush", "purge")] == [
        "crawlframe-export", "crawlframe-export", "init_transactions", "committed",
        "begin_transaction", "produce", "produce",
        ("send_offsets_to_transaction", Item.objects.latest("pk").pk), "commit_transaction",
    ]  # fmt: skip


def test_without_the_extra_the_problem_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    fill(made_task(), 1)
    row = drive(add({"kind": "kafka", "servers": "localhost:1", "topic": "houses"}))
    assert "pip install 'crawlframe[kafka]'" in row.problem
    assert Export.objects.get().rows == 0


# -- object stores --------------------------------------------------------------------------------


def test_a_file_of_an_object_store_is_one_put(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the file system in memory of fsspec."""
    memory = pytest.importorskip("fsspec.implementations.memory")
    from crawlservice.exports.targets import files

    system = memory.MemoryFileSystem()
    store = files.ObjectStore(system, "/bucket/houses", "s3://bucket/houses", renames=False)
    monkeypatch.setattr(files, "open_store", lambda target: store)
    fill(made_task(), 2)
    row = drive(add({"kind": "files", "url": "s3://bucket/houses", "max_minutes": 0}))
    (name,) = system.ls("/bucket/houses", detail=False)
    assert row.last_batch == f"s3://bucket/houses/{name.rpartition('/')[2]}"
    found = [json.loads(line)["n"] for line in system.cat(name).splitlines()]
    assert found == stored()
    assert tried(row, OPEN) == ""
    assert system.ls("/bucket/houses", detail=False) == [name]
