"""Kafka: batches as transactions. A transaction also commits how far it is, as the offset of a
group of its own, so an attempt that is repeated finds out that the batch is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from django.utils.translation import gettext_lazy as _
from pydantic import Field

from crawlframe.base import faults
from crawlframe.conf import Settings
from crawlservice.exports.addresses import Address, BadExport
from crawlservice.exports.source import KEY
from crawlservice.exports.target import (
    BatchName,
    ExportBatch,
    FormField,
    Limits,
    Target,
    TargetError,
    TargetKind,
    Text,
    Writer,
    address_of,
    need,
)

TIMEOUT = 30  # seconds for an answer
GROUP = "crawlframe-export"


class KafkaTarget(Target):
    """A topic of Kafka, in transactions: readers need `isolation.level=read_committed`."""

    SECRETS = ("password",)

    kind: Literal["kafka"]
    servers: Annotated[
        Text,
        Field(min_length=1, description="host:9092, several with commas"),
        FormField(_("Servers"), _("host:9092, several with commas")),
    ]
    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$"), FormField(_("Topic"))]
    security: Annotated[
        Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"], FormField(_("Security"))
    ] = "plaintext"
    mechanism: Annotated[
        Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"], FormField(_("SASL mechanism"))
    ] = ""
    user: Annotated[Text, FormField(_("User"))] = ""
    password: Annotated[Text, FormField(_("Password"))] = ""

    def check(self) -> None:
        if self.security.startswith("sasl") and not (self.mechanism and self.user):
            raise BadExport("target.mechanism", "SASL needs mechanism, user and password")
        if self.user and not self.security.startswith("sasl"):
            raise BadExport("target.security", "user and password need sasl_ssl or sasl_plaintext")

    @property
    def destination(self) -> Address:
        return self.kind, self.servers, self.security, self.mechanism, self.user

    def open(self, node: Settings, installation: str) -> Writer:
        return KafkaWriter(self, installation)

    @classmethod
    def place(cls, shown: Mapping[str, Any]) -> str:
        return f"kafka {shown['servers']} {shown['topic']}"


class KafkaWriter:
    limits = Limits(rows=1000, bytes=8 << 20)

    def __init__(self, target: KafkaTarget, installation: str) -> None:
        """``installation``: its id, so that no two installations share a transaction."""
        self._target, self._installation = target, installation
        self._producer: Any = None

    def send(self, name: BatchName, batch: ExportBatch) -> str:
        need("confluent_kafka", "kafka")
        from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

        place = TopicPartition(self._target.topic, 0, name.last)
        group = f"{GROUP}.{self._installation}.{name.series}"
        consumer = Consumer({**self._options(), "group.id": group, "enable.auto.commit": False})
        try:
            # First: it ends a transaction that another node left open, and that node's producer.
            producer = self._ready(name)
            (known,) = consumer.committed([TopicPartition(self._target.topic, 0)], TIMEOUT)
            # A topic that is missing is made by the first message, if the cluster allows it.
            if known.error and known.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise TargetError(f"Kafka: {known.error}")
            if known.offset < name.last:
                self._produce(producer, batch)
                metadata = consumer.consumer_group_metadata()
                producer.send_offsets_to_transaction([place], metadata, TIMEOUT)
                faults.at("export.write.before")
                producer.commit_transaction(TIMEOUT)
                faults.at("export.write.after")
        except KafkaException as error:
            raise TargetError(f"Kafka: {error.args[0].str()}") from None
        finally:
            consumer.close()
        return f"{self._target.topic}: {batch.rows:,} rows, to {name.last}"

    def test(self, name: BatchName, empty: ExportBatch) -> None:
        """Asks for the topic."""
        need("confluent_kafka", "kafka")
        from confluent_kafka.admin import AdminClient

        topic = self._target.topic
        if error := AdminClient(self._options()).list_topics(topic, 10).topics[topic].error:
            raise TargetError(f"Kafka: {error.str()}")

    def close(self) -> None:
        """Leaves an open transaction to the next producer of this name, which ends it."""
        if self._producer is not None:
            with suppress(Exception):
                self._producer.purge()
        self._producer = None

    def _ready(self, name: BatchName) -> Any:
        if self._producer is None:
            from confluent_kafka import Producer

            options = {
                **self._options(),
                "transactional.id": f"{GROUP}.{self._installation}.{name.producer}",
                "compression.type": "gzip",
                "message.max.bytes": 64 << 20,
            }
            self._producer = Producer(options)
            self._producer.init_transactions(TIMEOUT)
        return self._producer

    def _produce(self, producer: Any, batch: ExportBatch) -> None:
        failed: list[str] = []

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                failed.append(error.str())

        producer.begin_transaction()
        for rows in batch.chunks():
            for row in rows:
                value = json.dumps(row, ensure_ascii=False).encode()
                producer.produce(
                    self._target.topic, value, key=row[KEY].encode(), on_delivery=delivered
                )
            producer.poll(0)
        producer.flush(TIMEOUT)
        if failed:
            raise TargetError(f"Kafka: {failed[0]}")

    def _options(self) -> dict[str, Any]:
        target = self._target
        for server in target.servers.split(","):
            address_of(urlsplit(f"//{server.strip().rpartition('://')[2]}").hostname)
        options: dict[str, Any] = {
            "bootstrap.servers": target.servers,
            "security.protocol": target.security,
            "socket.timeout.ms": 1000 * TIMEOUT,
            "log_level": 0,  # errors are raised
        }
        if target.mechanism:
            options |= {
                "sasl.mechanisms": target.mechanism,
                "sasl.username": target.user,
                "sasl.password": target.password,
            }
        return options


TARGET = TargetKind("kafka", _("Kafka"), KafkaTarget)
