"""The slices about whoever comes in: connections, access, TLS."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from lakequeue.settings.slice import Slice


class FrontSettings(Slice):
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
        65_536.0,
        gt=0,
        description="… at this rate; if a client reads more slowly, its connection is closed",
    )
    max_unread_bytes: int = Field(
        128 << 20, ge=1, description="bytes of answers that clients have not read; above it 429"
    )
    max_parked: int = Field(
        12_288, ge=1, description="polls, receives and streams of events that wait, per node"
    )
    max_waits: int = Field(
        2_048, ge=1, description="sends that wait for their offsets, per ingest node; above it 429"
    )


class AccessSettings(Slice):
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


class TlsSettings(Slice):
    """TLS 1.2 and later, of both services and the driver's endpoint."""

    cert: Path | None = Field(
        None,
        description="file of the certificate, with its chain, in PEM form; none: plain HTTP. Read "
        "again when it has changed",
    )
    key: Path | None = Field(None, description="file of its private key, if it is another one")
    client_ca: Path | None = Field(
        None,
        description="authorities that sign client certificates; the principal is `cert/<common "
        "name>`. Clients without a certificate use a key",
    )
