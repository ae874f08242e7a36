"""Every setting, once: command line > `LAKEQUEUE_*` > `lakequeue.toml` > the defaults here.
`LAKEQUEUE_CONFIG` names another file in place of `lakequeue.toml`.

Each component is handed its own slice (`settings.ingest`, `settings.order`, …); nothing else in
the code reads the environment. `docs/configuration.md` is generated from this file.
"""

# longer than 400 lines: every setting, once

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from lakequeue.errors import InvalidSetting

_PREFIX = "LAKEQUEUE_"
CONFIG_VARIABLE = "LAKEQUEUE_CONFIG"
"""Names the file of settings, for every command and process."""
_URL = (
    "base URL at which clients and other nodes reach this node; default http://<host>:<port>, with "
    "this machine's name if host means every address. For the command line: where the services "
    "are; separate several URLs by commas"
)


class _Slice(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class IngestSettings(_Slice):
    """The ingest node."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    url: str | None = Field(None, description=_URL)
    threads: int = Field(32, ge=1, le=4096, description="threads, shared out to the kinds of calls")
    linger_ms: float = Field(
        5.0, ge=0, le=60000, description="how long a group waits for more records"
    )
    max_group_bytes: int = Field(8 << 20, ge=1, description="size at which a group is closed")
    max_pending_bytes: int = Field(
        64 << 20, ge=1, description="limit of bytes accepted and not yet committed; beyond it 429"
    )
    max_record_bytes: int = Field(
        1 << 20, ge=1, description="limit of key + value + headers of one record"
    )
    max_request_bytes: int = Field(
        16 << 20, ge=1, description="limit of one request, after decompression"
    )
    max_request_records: int = Field(10_000, ge=1, description="limit of records in one request")
    max_parsed_bytes: int = Field(
        256 << 20,
        ge=1,
        description="limit of what JSON bodies take in memory while they are parsed; beyond it 429",
    )
    max_carried_ahead_s: float = Field(
        5.0, ge=0, description="a stamp sent by a producer may be this far ahead; beyond it 503"
    )


class OrderSettings(_Slice):
    """The order job."""

    max_batch_bytes: int = Field(128 << 20, ge=1, description="limit of record bytes in one batch")
    driver_batch_bytes: int = Field(
        128 << 20,
        ge=0,
        description="the driver reads and writes batches up to this many record bytes; Spark's "
        "tasks take larger ones. On a cluster set it below max_batch_bytes",
    )
    tasks: int = Field(
        2,
        ge=1,
        description="limit of tasks that read a large batch, and of files that it is written to; "
        "on a cluster, the number of cores",
    )
    poll_s: float = Field(
        1.0, gt=0, description="longest wait for a notification; then the shards are scanned anyway"
    )
    batch_interval_s: float = Field(
        0.0,
        ge=0,
        description="shortest time from one batch to the next. A longer time needs fewer storage "
        "requests; records come later by half of it",
    )
    max_index_ids: int = Field(50_000_000, ge=1, description="limit of ids in the dedup index")
    checkpoint_every: int = Field(
        500, ge=1, description="commits between Delta checkpoints of `log`"
    )
    maintenance_s: float = Field(
        600.0,
        ge=0,
        description="how often the order leader runs the jobs metrics, compaction and retention, "
        "each as a process; 0: never, because you schedule them yourself",
    )
    metrics: bool = Field(
        True,
        description="whether the order leader runs the job metrics. It saves the rates and lag of "
        "each hour, and the positions of groups, which a fork as of an earlier time needs",
    )
    driver_memory: str = Field("1g", description="heap of the Spark driver")


class DriverSettings(_Slice):
    """The driver of the order and offsets jobs: its endpoint."""

    host: str = Field("127.0.0.1", description="address of /healthz, /readyz and /metrics")
    port: int = Field(
        8082,
        ge=0,
        le=65535,
        description="their port; 0: a free one. If it is in use, the jobs run without it",
    )
    tables_s: float = Field(
        60.0,
        ge=0,
        description="how often the files and log objects of the tables are counted, by a listing "
        "of the whole root; 0: never",
    )


class OffsetsSettings(_Slice):
    """The offsets job."""

    fold_interval_s: float = Field(
        5.0,
        ge=0,
        description="shortest time from one fold to the next; readers see newer facts, too",
    )


class ConsumerSettings(_Slice):
    """The consumer-service node."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8081, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    url: str | None = Field(None, description=_URL)
    threads: int = Field(
        64,
        ge=1,
        le=4096,
        description="threads, shared out to the kinds of calls; a call that waits needs none",
    )
    linger_ms: float = Field(
        2.0, ge=0, le=60000, description="how long a group of facts waits for more facts"
    )
    tail_bytes: int = Field(
        64 << 20, ge=0, description="bytes of the newest records that stay in memory"
    )
    poll_s: float = Field(
        0.5,
        gt=0,
        description="longest wait for a notification about the log; then the node checks it anyway",
    )
    max_poll_records: int = Field(10_000, ge=1, description="limit of records in one poll")
    max_poll_bytes: int = Field(8 << 20, ge=1, description="limit of record bytes in one poll")
    session_timeout_ms: int = Field(
        10_000, ge=1000, le=300000, description="session timeout of a member that gives none"
    )
    webhook_allow_private: bool = Field(
        False, description="whether webhooks may use addresses that are not public"
    )
    max_poll_interval_ms: int = Field(
        300_000,
        ge=1000,
        description="a member that has records and commits nothing for this long is removed",
    )


class FrontSettings(_Slice):
    """What carries HTTP in both services: connections, deadlines, memory."""

    max_connections: int = Field(
        16_384, ge=1, description="connections of one node; fewer if the system allows fewer files"
    )
    max_connections_per_address: int = Field(
        12_288, ge=1, description="connections from one address; a load balancer is one address"
    )
    header_s: float = Field(
        10.0, gt=0, description="a request's headers have to be complete in this time"
    )
    body_grace_s: float = Field(
        10.0, gt=0, description="a body may take this long, and longer by its size …"
    )
    body_bytes_per_s: float = Field(
        16_384.0, gt=0, description="… at this rate; slower bodies get 408"
    )
    idle_s: float = Field(75.0, gt=0, description="a connection without a request is closed then")
    write_s: float = Field(
        10.0, gt=0, description="an answer may take this long to be read, and longer by its size …"
    )
    write_bytes_per_s: float = Field(
        65_536.0, gt=0, description="… at this rate; slower readers are let go"
    )
    max_unread_bytes: int = Field(
        128 << 20, ge=1, description="bytes of answers that clients have not read; past it 429"
    )
    max_parked: int = Field(
        12_288, ge=1, description="polls, receives and streams of events that wait, per node"
    )
    max_waits: int = Field(
        2_048, ge=1, description="sends that wait for their offsets, per ingest node; past it 429"
    )


class AccessSettings(_Slice):
    """Who comes in; who may do what stands in the table `access` (`lakequeue auth`)."""

    let_anybody_read_write_and_delete: bool = Field(
        False,
        description="whether a node may listen where others reach it while authentication is off: "
        "then anybody who reaches its port may read, write and delete everything",
    )
    hosts: tuple[str, ...] = Field(
        (),
        description="further names by which this node is reached, without ports; a request for "
        "another name is refused while authentication is off. A JSON list",
    )
    origins: tuple[str, ...] = Field(
        (),
        description="origins of web pages that may call this node, such as "
        "`https://console.example.org`. A JSON list",
    )


class TlsSettings(_Slice):
    """TLS 1.2 and later, of both services and the driver's endpoint."""

    cert: Path | None = Field(
        None,
        description="file of the certificate, with its chain, in PEM form; none: plain HTTP. Read "
        "again when it has changed",
    )
    key: Path | None = Field(None, description="file of its private key, if it is another one")
    client_ca: Path | None = Field(
        None,
        description="certificates that sign those of clients; the common name of a client's is its "
        "principal, `cert/<name>`. Clients without one show a key",
    )


class CoordinationSettings(_Slice):
    """ZooKeeper."""

    session_timeout_s: float = Field(10.0, gt=0, description="session timeout of a node")
    lease_margin_s: float = Field(
        1.0, ge=0, description="how long before its end a lease is no longer trusted"
    )
    ring_interval_ms: float = Field(
        20.0, ge=0, description="shortest time from one notification of a table to the next"
    )


class ServerSettings(_Slice):
    """A ZooKeeper server of your own (`lakequeue run zookeeper`)."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(2181, ge=0, le=65535, description="port to listen on")
    data_dir: Path = Field(Path("zookeeper-data"), description="directory of its state")
    number: int | None = Field(
        None,
        ge=1,
        le=255,
        description="number of this server in an ensemble; none: it is the only one",
    )
    servers: str | None = Field(
        None, description="all servers of the ensemble: 1=a:2888:3888,2=b:2888:3888,…"
    )


class Settings(BaseSettings):
    """All settings; frozen. Raises `InvalidSetting` if one is wrong."""

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
    )

    root: str = Field("./lakequeue-data", description="root URI or directory of the queue")
    zookeeper: str | None = Field(
        None,
        description="host:port,… of your own ensemble; without it an embedded server is started",
    )
    node: str | None = Field(None, description="name of this node; default <role>-<host>")
    work_dir: Path | None = Field(
        None,
        description="local folder for checkpoints and logs; default <root>/_work or temporary",
    )
    api_key: SecretStr | None = Field(
        None, description="API key or token that clients and the command line show"
    )
    api_key_file: Path | None = Field(
        None, description="file that has it, in its place; read again when it has changed"
    )
    ca: Path | None = Field(
        None, description="file of the certificates that clients trust; default: the system's"
    )
    cert: Path | None = Field(None, description="file of a client's certificate")
    key: Path | None = Field(None, description="file of its private key, if it is another one")
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        BeforeValidator(lambda given: given.lower() if isinstance(given, str) else given),
    ] = Field("info", description="debug, info, warning or error")
    crash_at: str | None = Field(None, description="for fault tests: step[:count[:kill|stop]]")

    ingest: IngestSettings = IngestSettings()
    order: OrderSettings = OrderSettings()
    offsets: OffsetsSettings = OffsetsSettings()
    driver: DriverSettings = DriverSettings()
    front: FrontSettings = FrontSettings()
    access: AccessSettings = AccessSettings()
    tls: TlsSettings = TlsSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    coordination: CoordinationSettings = CoordinationSettings()
    server: ServerSettings = ServerSettings()

    def __init__(self, **given: Any) -> None:
        # pydantic-settings skips variables whose first part names no field.
        known = {name.split(".")[0] for name in meanings()} | {"config"}
        stray = next(stray_variables(os.environ, known), None)
        if stray is not None:
            raise unknown(stray)
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise explain(error) from error

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Command line (given as init arguments) > environment > toml > defaults."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, settings_file())


def settings_file() -> Path:
    """The file of settings: `LAKEQUEUE_CONFIG`, else lakequeue.toml, which need not be there.

    Raises `InvalidSetting`.
    """
    named = os.environ.get(CONFIG_VARIABLE)
    if named is None:
        return Path("lakequeue.toml")
    if not Path(named).is_file():
        raise InvalidSetting(
            f"the settings file {named} does not exist",
            hint=f"{CONFIG_VARIABLE} or `lakequeue run … --config` must name an existing file",
        )
    return Path(named)


def meanings(model: type[BaseModel] = Settings, prefix: str = "") -> dict[str, str]:
    """Dotted name → meaning of each setting. Pure."""
    found: dict[str, str] = {}
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            found |= meanings(field.annotation, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = field.description or ""
    return found


def variable(name: str) -> str:
    """The environment variable of the setting with this dotted name. Pure."""
    return _PREFIX + name.upper().replace(".", "__")


def stray_variables(environ: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    """Dotted names that variables of ours give and whose first part is none of `known`. Pure."""
    for each in environ:
        if each.upper().startswith(_PREFIX):
            name = each[len(_PREFIX) :].lower().replace("__", ".")
            if name.split(".")[0] not in known:
                yield name


def unknown(name: str) -> InvalidSetting:
    """The error for a setting that does not exist. Pure."""
    near = difflib.get_close_matches(name, meanings(), n=1)
    guess = f"did you mean {near[0]} ({variable(near[0])})? " if near else ""
    return InvalidSetting(
        f"there is no setting {name} ({variable(name)})",
        hint=f"{guess}docs/configuration.md lists all settings",
    )


def explain(error: ValidationError) -> InvalidSetting:
    """What is wrong with the first setting at fault, and what to do. Pure."""
    problem = error.errors()[0]
    name = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return unknown(name)
    meaning = meanings().get(name)
    return InvalidSetting(
        f"setting {name} = {problem['input']!r}: {problem['msg']}",
        hint=(f"{meaning}; " if meaning else "")
        + f"set it on the command line, by {variable(name)} or in lakequeue.toml",
    )
