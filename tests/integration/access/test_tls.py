"""TLS of an ingest node and of a driver's endpoint."""

from __future__ import annotations

import contextlib
import socket
import ssl
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from lakequeue import Admin, Credentials, Producer
from lakequeue.errors import InvalidSetting
from lakequeue.settings import AccessSettings, TlsSettings
from queue_access.doors import Certificate
from queue_access.registry import LOCKED, Entry, Registry, entry_of_grant
from queue_access.rights import checked_grant
from serving.doors.gate import ServiceGate
from serving.monitor import Monitor
from serving.tls import Tls, certificate_of, tls_of
from tests.support.access.certificates import Authority, Files
from tests.support.access.locked import as_, locks
from tests.support.services.ingest_service import IngestService
from tests.support.services.zookeeper import wait_for


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def environment(node: Files, **other: Path) -> dict[str, str]:
    files = {"CERT": node.cert, "KEY": node.key} | other
    return {f"LAKEQUEUE_TLS__{name}": str(path) for name, path in files.items()}


def serial(address: tuple[str, int], ca: Path) -> int:
    """The serial number of the certificate that is shown."""
    context = ssl.create_default_context(cafile=str(ca))
    with (
        socket.create_connection(address, timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as link,
    ):
        shown = link.getpeercert()
    assert shown is not None
    return int(str(shown["serialNumber"]), 16)


def test_a_node_speaks_tls_takes_new_files_and_knows_clients_by_their_certificates(
    tmp_path: Path, authority: Authority
) -> None:
    made = locks(tmp_path / "root")
    made.may("cert/till", "produce", "topic", "orders")
    node = authority.sign("node")
    client, stranger = authority.sign("till"), Authority(tmp_path, "other").sign("till", "fake")
    given = environment(node, CLIENT_CA=authority.ca)
    with IngestService(tmp_path / "root", **given) as service:
        url = service.ready["url"]
        assert url.startswith("https://127.0.0.1:")
        ca = str(authority.ca)
        with Admin(url, credentials=Credentials(made.keys["admin"], ca=ca)) as admin:
            admin.create_topic("orders")
        shown = Credentials(ca=ca, cert=str(client.cert), key=str(client.key))
        with Producer(url, linger_ms=0, credentials=shown, find_nodes=False) as producer:
            producer.send("orders", 1).result(30)
        trust = ssl.create_default_context(cafile=ca)
        with httpx2.Client(base_url=url, verify=trust) as http:
            assert http.get("/v1/topics").status_code == 401
            assert http.get("/healthz").status_code == 200
            # What is refused before it has come whole is answered nevertheless.
            large = http.post(
                "/v1/topics/orders/records",
                content=b" " * (20 << 20),
                headers=as_(made.keys["admin"]) | {"Content-Type": "application/json"},
            )
            assert large.status_code == 413
        fake = ssl.create_default_context(cafile=ca)
        fake.load_cert_chain(stranger.cert, stranger.key)
        with httpx2.Client(base_url=url, verify=fake) as http, pytest.raises(httpx2.HTTPError):
            http.get("/v1/topics")
        old_ones_and_no_tls_are_refused(url)
        parts = httpx2.URL(url)
        address = (parts.host, parts.port or 0)
        before = serial(address, authority.ca)
        node.cert.write_text("half of a file")
        assert serial(address, authority.ca) == before
        authority.sign("node")
        wait_for(lambda: serial(address, authority.ca) != before, "the new certificate")
        authority_of_clients_is_replaced(tmp_path, authority, client, url)


def authority_of_clients_is_replaced(
    tmp_path: Path, authority: Authority, client: Files, url: str
) -> None:
    """The old one's clients are nobody from then on; the node is not started again."""
    server = tmp_path / "server-ca.pem"
    server.write_bytes(authority.ca.read_bytes())
    newer = Authority(tmp_path, "newer")
    newest = newer.sign("till", "newest")
    authority.ca.write_bytes(newer.ca.read_bytes())

    def status(files: Files) -> int:
        trust = ssl.create_default_context(cafile=str(server))
        trust.load_cert_chain(files.cert, files.key)
        with contextlib.suppress(httpx2.HTTPError), httpx2.Client(verify=trust) as http:
            return http.get(f"{url}/v1/topics").status_code
        return 0

    wait_for(lambda: status(newest) == 200, "clients of the new authority are known")
    assert status(client) == 0


def old_ones_and_no_tls_are_refused(url: str) -> None:
    parts = httpx2.URL(url)
    address = (parts.host, parts.port or 0)
    with socket.create_connection(address, timeout=30) as plain:
        plain.sendall(b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b"HTTP/1.1 200" not in plain.recv(1_000)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname = False
    old.verify_mode = ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version = ssl.TLSVersion.TLSv1
    with socket.create_connection(address, timeout=30) as plain, pytest.raises(ssl.SSLError):
        old.wrap_socket(plain)


def test_a_driver_speaks_it_too(tmp_path: Path, authority: Authority) -> None:
    node = authority.sign("driver")
    monitor = Monitor(
        "driver-1", list, lambda: b"# nothing\n", tls=Tls(TlsSettings(cert=node.cert, key=node.key))
    )
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    try:
        assert url.startswith("https://")
        trust = ssl.create_default_context(cafile=str(authority.ca))
        parts = httpx2.URL(url)
        with socket.create_connection((parts.host, parts.port or 0)):  # says nothing
            assert httpx2.get(f"{url}/metrics", verify=trust).text == "# nothing\n"
    finally:
        monitor.close()


def test_a_driver_takes_a_new_certificate_though_the_old_one_keeps_clients_away(
    tmp_path: Path, authority: Authority
) -> None:
    node = authority.sign("driver", good_for=timedelta(days=-1))
    tls = Tls(TlsSettings(cert=node.cert, key=node.key))
    monitor = Monitor("driver-1", list, lambda: b"", tls=tls)
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    parts = httpx2.URL(url)
    address = (parts.host, parts.port or 0)
    try:
        with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
            serial(address, authority.ca)
        authority.sign("driver")

        def answers() -> bool:
            with contextlib.suppress(ssl.SSLCertVerificationError):
                return serial(address, authority.ca) > 0
            return False

        wait_for(answers, "the new certificate")
    finally:
        monitor.close()


def test_who_speaks_no_tls_leaves_no_page_in_the_log_of_a_driver(
    authority: Authority, capfd: pytest.CaptureFixture[str]
) -> None:
    node = authority.sign("driver")
    tls = Tls(TlsSettings(cert=node.cert, key=node.key))
    monitor = Monitor("driver-1", list, lambda: b"", tls=tls)
    url = monitor.start("127.0.0.1", 0)
    assert url is not None
    parts = httpx2.URL(url)
    try:
        with socket.create_connection((parts.host, parts.port or 0), timeout=30) as link:
            link.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while link.recv(4_096):
                    pass
    finally:
        monitor.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_driver_knows_clients_by_their_certificates(tmp_path: Path, authority: Authority) -> None:
    node, client = authority.sign("driver"), authority.sign("prometheus")
    gate = ServiceGate("driver", AccessSettings(), [])
    grant = entry_of_grant("cert/prometheus", checked_grant("read", "queue", "*"))
    gate.replace(Registry([Entry(LOCKED, LOCKED), grant]))
    tls = Tls(TlsSettings(cert=node.cert, key=node.key, client_ca=authority.ca))
    monitor = Monitor("driver-1", list, lambda: b"# nothing\n", gate=gate, tls=tls)
    url = monitor.start("127.0.0.1", 0)
    try:
        trust = ssl.create_default_context(cafile=str(authority.ca))
        assert httpx2.get(f"{url}/metrics", verify=trust).status_code == 401
        trust.load_cert_chain(client.cert, client.key)
        assert httpx2.get(f"{url}/metrics", verify=trust).text == "# nothing\n"
    finally:
        monitor.close()


def test_a_certificate_of_a_client_says_who_and_how_long() -> None:
    subject = ((("commonName", "till"),),)
    shown = {"subject": subject, "notAfter": "Jan  1 00:00:10 1970 GMT"}
    assert certificate_of(shown) == Certificate("till", 10)
    assert certificate_of(None) is None
    assert certificate_of({}) is None
    assert certificate_of(shown | {"subject": subject * 2}) is None


def test_files_that_cannot_be_used_are_refused_at_the_start(
    tmp_path: Path, authority: Authority
) -> None:
    node, other = authority.sign("node"), authority.sign("other")
    assert tls_of(TlsSettings()) is None
    for wrong in (
        TlsSettings(cert=tmp_path / "none.pem"),
        TlsSettings(cert=node.cert, key=other.key),
        TlsSettings(key=node.key),
        TlsSettings(cert=node.cert, key=node.key, client_ca=tmp_path / "none.pem"),
    ):
        with pytest.raises(InvalidSetting, match=r"TLS|tls\."):
            tls_of(wrong)
