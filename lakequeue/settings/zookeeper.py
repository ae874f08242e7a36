"""The slices about ZooKeeper: the sessions of a node, and a server of your own."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from lakequeue.settings.slice import Slice


class CoordinationSettings(Slice):
    """ZooKeeper."""

    session_timeout_s: float = Field(10.0, gt=0, description="session timeout of a node")
    lease_margin_s: float = Field(
        1.0, ge=0, description="a lease is no longer trusted this long before its end"
    )
    ring_interval_ms: float = Field(
        20.0,
        ge=0,
        description="shortest time from one notification of a table to the next. On a file system "
        "of one machine it is five times that, because the kernel tells of commits at once",
    )
    user: str = Field(
        "lakequeue",
        pattern=r"^[^:\s]{1,100}$",
        description="user name for ZooKeeper, with the password",
    )
    password: SecretStr | None = Field(
        None,
        description="password for ZooKeeper. Without it, nobody can read or change the queue's "
        "nodes there. `lakequeue up` makes one for a server of its own",
    )
    password_file: Path | None = Field(None, description="file with the password")
    tls: bool = Field(
        False, description="whether to use TLS to ZooKeeper; its certificate is checked"
    )
    ca: Path | None = Field(
        None, description="certificates that may sign ZooKeeper's, beside those of the system"
    )
    cert: Path | None = Field(None, description="file of a certificate to show to ZooKeeper")
    key: Path | None = Field(None, description="file of its private key, if it is another one")


class ServerSettings(Slice):
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
    cert: Path | None = Field(
        None,
        description="file of its certificate and private key (PKCS #8), in PEM form: with it the "
        "port accepts only TLS, and the servers of an ensemble use TLS among themselves",
    )
    client_ca: Path | None = Field(
        None,
        description="authorities that sign the certificates of clients and other servers; with it "
        "clients need a certificate",
    )
