"""Definition: what an export says about itself, the same in the API, the admin and the file."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from crawlframe.errors import ArgumentError, CrawlframeError
from crawlservice.exports.addresses import Address, check_path, host_of, options_of, parts_of
from crawlservice.models import EXPORT_NAME, LABEL_NAME, LABEL_VALUE, LABELS, SPIDER
from crawlservice.tasks import labels
from crawlservice.tasks.usage_filter import read_filters

MAX_ROWS = 1_000_000
SCHEMES = ("s3", "sftp")  # of addresses of files; each is also the name of the extra
# Of a database -> what its address may say besides. Others could name a password, which would be
# shown, or a file of the node.
_POSTGRES = ("channel_binding", "sslmode", "sslrootcert", "target_session_attrs")
DATABASES = {"postgresql": _POSTGRES, "postgres": _POSTGRES, "mysql": ("ssl",), "mariadb": ("ssl",)}

Text = Annotated[str, Field(max_length=1000, pattern=r"^[^\x00]*$")]
Name = Annotated[str, Field(pattern=rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{EXPORT_NAME - 1}}}$")]
LabelName = Annotated[str, Field(pattern=rf"^[A-Za-z0-9._-]{{1,{LABEL_NAME}}}$")]
LabelValue = Annotated[str, Field(min_length=1, max_length=LABEL_VALUE)]


class BadExport(ArgumentError):
    """``field``: the part of the definition that is wrong."""

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}")
        self.field = field


def place_of(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """The keys of a mistake that pydantic found, without the kind of the target among them."""
    return (loc[0], *loc[2:]) if loc[:1] == ("target",) else loc


class Given(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class FilesTarget(Given):
    """Files, each of which appears when it is complete. `url` is a directory below
    CRAWLFRAME_EXPORT_DIR of the nodes, `s3://bucket/prefix` or `sftp://user@host/directory`.
    `secret` is the secret key of S3 or the password of SFTP; without it, the credentials of the
    node's machine are used."""

    SECRETS: ClassVar = ("url", "secret", "private_key")

    kind: Literal["files"]
    url: Annotated[Text, Field(min_length=1)]
    format: Literal["jsonl", "csv", "parquet"] = "jsonl"
    gzip: bool = False
    max_rows: Annotated[int, Field(ge=1, le=MAX_ROWS)] = MAX_ROWS
    max_mb: Annotated[int, Field(ge=1, le=1024, description="MiB as JSON lines")] = 64
    max_minutes: Annotated[int, Field(ge=0, le=10_080, description="age of the oldest row")] = 15
    key: Text = Field("", description="access key id of S3")
    secret: Annotated[str, Field(max_length=20_000)] = ""
    private_key: Annotated[str, Field(max_length=20_000, description="of SFTP, as PEM")] = ""
    host_key: Text = Field("", description="of the SFTP server; empty: known_hosts of the node")
    endpoint: Text = Field("", description="of an S3 that is not Amazon's")
    region: Text = ""

    def check(self) -> None:
        """Raises BadExport."""
        scheme = parts_of("target.url", self.url, BadExport).scheme
        if not scheme:
            check_path(self.url, BadExport)
        elif scheme not in SCHEMES:
            raise BadExport("target.url", f"{scheme}:// is none of s3://, sftp:// and a directory")
        elif not host_of(self.url):
            raise BadExport("target.url", f"write {scheme}://NAME/directory")
        if self.gzip and self.format == "parquet":
            raise BadExport("target.gzip", "Parquet is compressed already; leave gzip out")
        if self.private_key and scheme != "sftp":
            raise BadExport("target.private_key", "only SFTP has one")
        if self.endpoint:
            parts_of("target.endpoint", self.endpoint, BadExport)

    @property
    def destination(self) -> Address:
        return self.kind, host_of(self.url), self.endpoint, self.key, self.host_key


class TableTarget(Given):
    """A table of another database. `url` is `postgresql://user:password@host:5432/database` or
    `mysql://…`; the table is made if there is none, and gets a column for each field."""

    SECRETS: ClassVar = ("url",)

    kind: Literal["table"]
    url: Annotated[Text, Field(min_length=1)]
    table: Annotated[
        str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}(\.[A-Za-z_][A-Za-z0-9_]{0,62})?$")
    ]

    def check(self) -> None:
        parts = parts_of("target.url", self.url, BadExport)
        if parts.scheme not in DATABASES or not parts.hostname or len(parts.path) < 2:
            raise BadExport(
                "target.url", "write postgresql://user:password@host/database or mysql://…"
            )
        allowed = DATABASES[parts.scheme]
        if refused := sorted(options_of(self.url).keys() - {*allowed}):
            raise BadExport(
                "target.url",
                f"the option {refused[0]} cannot be used here, only {', '.join(allowed)}",
            )

    @property
    def destination(self) -> Address:
        return self.kind, host_of(self.url)


class KafkaTarget(Given):
    """A topic of Kafka, in transactions: readers need `isolation.level=read_committed`."""

    SECRETS: ClassVar = ("password",)

    kind: Literal["kafka"]
    servers: Annotated[Text, Field(min_length=1, description="host:9092, several with commas")]
    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
    security: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"] = "plaintext"
    mechanism: Literal["", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = ""
    user: Text = ""
    password: Text = ""

    def check(self) -> None:
        if self.security.startswith("sasl") and not (self.mechanism and self.user):
            raise BadExport("target.mechanism", "SASL needs mechanism, user and password")
        if self.user and not self.security.startswith("sasl"):
            raise BadExport("target.security", "user and password need sasl_ssl or sasl_plaintext")

    @property
    def destination(self) -> Address:
        return self.kind, self.servers, self.security, self.mechanism, self.user


class HttpTarget(Given):
    """An address that receives batches in POST requests, signed as webhooks are. `secret`: with
    which they are signed; empty: one is made and shown once."""

    SECRETS: ClassVar = ("url", "secret")

    kind: Literal["http"]
    url: Annotated[Text, Field(min_length=1)]
    format: Literal["jsonl", "json"] = "jsonl"
    max_rows: Annotated[int, Field(ge=1, le=10_000)] = 500
    secret: Annotated[str, Field(max_length=200, pattern=r"^([!-~]{8,})?$")] = ""

    def check(self) -> None:
        parts = parts_of("target.url", self.url, BadExport)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BadExport("target.url", "it must begin with https:// or http://")
        if "@" in parts.netloc and not parts.password:
            raise BadExport("target.url", "write the login as user:password@host")

    @property
    def destination(self) -> Address:
        return self.kind, host_of(self.url)


Target = FilesTarget | TableTarget | KafkaTarget | HttpTarget


class Definition(Given):
    """One continuous export."""

    name: Name
    what: Literal["items", "pages"] = "items"
    spider: Annotated[str, Field(max_length=SPIDER, pattern=r"^[^\x00]*$")] = ""
    task: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None
    labels: Annotated[dict[LabelName, LabelValue], Field(max_length=LABELS)] = {}
    usage: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]*$")] = Field(
        "", description="such as `ai-train!=no`"
    )
    fields: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")]],
        Field(max_length=500),
    ] = Field([], description="only these; empty: all")
    target: Annotated[Target, Field(discriminator="kind")]

    def check(self) -> None:
        """What the types do not say. Raises BadExport."""
        try:
            labels.check(self.labels)
        except CrawlframeError as error:
            raise BadExport("labels", str(error)) from None
        try:
            read_filters(self.usage or None)
        except CrawlframeError as error:
            raise BadExport("usage", str(error)) from None
        if len({*self.fields}) != len(self.fields):
            raise BadExport("fields", "a field is named twice")
        self.target.check()
