"""The slices of the services and the jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from lakequeue.settings.slice import Slice

_URL = (
    "base URL at which clients and other nodes reach this node; default http://<host>:<port>, with "
    "this machine's name if host means every address. For the command line: where the services "
    "are; separate several URLs by commas"
)


def _without_secret(url: str | None) -> str | None:
    if url is not None and any("@" in one.partition("://")[2] for one in url.split(",")):
        raise ValueError(
            "no user name or password belongs in a URL, which is shown: set an API key"
        )
    return url


Url = Annotated[str | None, AfterValidator(_without_secret)]
"""One or several, separated by commas."""


class IngestSettings(Slice):
    """The ingest node."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8080, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    url: Url = Field(None, description=_URL)
    threads: int = Field(32, ge=1, le=4096, description="threads, divided among the kinds of calls")
    linger_ms: float = Field(
        5.0, ge=0, le=60000, description="how long a group waits for more records"
    )
    max_group_bytes: int = Field(8 << 20, ge=1, description="size at which a group is closed")
    max_pending_bytes: int = Field(
        64 << 20,
        ge=1,
        description="limit of bytes that are accepted and not committed yet; above it 429",
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
        description="limit of memory for JSON and Arrow bodies while they are parsed; above it 429",
    )
    max_carried_ahead_s: float = Field(
        5.0,
        ge=0,
        description="a producer's stamp may be this far ahead of the clock; if it is further "
        "ahead, 503",
    )


class ConsumerSettings(Slice):
    """The consumer-service node."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8081, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    url: Url = Field(None, description=_URL)
    threads: int = Field(
        64,
        ge=1,
        le=4096,
        description="threads, divided among the kinds of calls; a call that waits needs none",
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
    max_parsed_bytes: int = Field(
        256 << 20,
        ge=1,
        description="limit of memory for JSON bodies while they are parsed; above it 429",
    )
    webhook_allow_private: bool = Field(
        False, description="whether webhooks may use addresses that are not public"
    )
    max_poll_interval_ms: int = Field(
        300_000,
        ge=1000,
        description="a member that has records and commits nothing for this long is removed",
    )


class OrderSettings(Slice):
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
        0.02,
        ge=0,
        description="shortest time from one batch to the next. A longer time needs less CPU and "
        "fewer storage requests. A record after a pause does not wait for it",
    )
    bulk_interval_s: float = Field(
        0.2,
        ge=0,
        description="the same while much comes in: more than about 20,000 records of 1 kB a "
        "second. Batches are larger then, and take less CPU",
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
    driver_memory: str = Field(
        "1g", pattern=r"^[1-9][0-9]{0,9}[kmgtKMGT]?$", description="heap of the Spark driver"
    )


class OffsetsSettings(Slice):
    """The offsets job."""

    fold_interval_s: float = Field(
        5.0,
        ge=0,
        description="shortest time from one fold to the next; readers see newer facts, too",
    )


class DriverSettings(Slice):
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


class ConsoleSettings(Slice):
    """The console."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(
        8083,
        ge=0,
        le=65535,
        description="port to listen on; 0 takes a free one. `lakequeue up` takes a free one, too, "
        "if this one is in use",
    )
    url: Url = Field(
        None, description="base URL by which browsers reach it, if not by host and port"
    )
    drivers: tuple[str, ...] = Field(
        (), description="base URLs of the drivers' endpoints, which it shows. A JSON list"
    )
    gateways: tuple[str, ...] = Field(
        (), description="base URLs of SQS gateways, which it shows. A JSON list"
    )
    read_only: bool = Field(False, description="whether it only shows, and changes nothing")
    mask: tuple[str, ...] = Field(
        (),
        description="what of records is hidden: `TOPIC:PATH`, as in `orders:card.number`, "
        "`*:headers.authorization`, `people*:key`, `raw:value`; `*` in a path is any field. "
        "A JSON list",
    )
    oidc_issuer: str | None = Field(
        None,
        description="URL of the OIDC issuer at which people may sign in, as its tokens name it; "
        "the queue has to know it (`lakequeue auth issuer add`)",
    )
    oidc_client_id: str | None = Field(
        None,
        description="what the issuer knows the console by. Its callback is "
        "`/sign-in/back` at `console.url`",
    )
    oidc_client_secret_file: Path | None = Field(
        None, description="file with the secret of that client, if it has one"
    )
    oidc_scope: str = Field("openid", description="which scopes the console asks for")
    oidc_audience: str | None = Field(
        None,
        description="audience that the console asks for, if the issuer does not choose it by the "
        "client: that of `lakequeue auth issuer add`",
    )


class SqsSettings(Slice):
    """The SQS gateway."""

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(9324, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    url: str | None = Field(
        None,
        description="base URL of the queues' URLs; default: the address that each client asks at",
    )
    account: str = Field(
        "000000000000", pattern="^[0-9]{12}$", description="account in the queues' URLs and ARNs"
    )
    region: str = Field(
        "us-east-1", pattern="^[a-z0-9-]{1,32}$", description="region in the queues' ARNs"
    )
    keys_file: Path | None = Field(
        None,
        description="file of the keys that clients sign with, one a line: API keys, or "
        "`<access key>:<secret>`; none: signatures are not checked, and only this machine may ask",
    )
    partitions: int = Field(
        4, ge=1, le=10_000, description="partitions of the topics of queues that SQS clients make"
    )
    max_waits: int = Field(
        512,
        ge=1,
        description="receives that wait at the same time; above it clients are told to wait",
    )
