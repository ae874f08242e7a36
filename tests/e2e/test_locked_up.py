"""`lakequeue up` with TLS and authentication: nothing is open, and no secret is anywhere."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import httpx2
import psutil
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from lakequeue import Admin, Consumer, Credentials, Producer
from lakequeue.errors import Unauthenticated
from lakequeue.wire.calls.webhooks import new_secret, verify
from lakequeue_cli.supervisor.preflight import free_port
from tests.e2e.test_up import banner
from tests.support.access.certificates import Authority
from tests.support.access.locked import as_, secret_of
from tests.support.services.endpoint import Endpoint, status
from tests.support.services.zookeeper import wait_for

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
    pytest.mark.faults,
    pytest.mark.timeout(600),
]
CLI = (sys.executable, "-m", "lakequeue_cli.app")
OPEN = {"/healthz", "/readyz"}
TOKEN = "eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUub3JnLyJ9.Y2FuYXJ5LXRva2Vu"


@dataclass
class Locked:
    """A queue that runs."""

    folder: Path
    process: subprocess.Popen[str]
    ingest: str
    consumer: str
    driver: str
    zookeeper: str
    ca: str
    keys: dict[str, str]
    environ: dict[str, str]

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def credentials(self, who: str) -> Credentials:
        return Credentials(self.keys[who], ca=self.ca)

    def cli(self, *words: str) -> str:
        """What a command says, on both channels."""
        done = subprocess.run(
            [*CLI, *words], env=self.environ, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    """Everything that `lakequeue up` starts, with TLS, and authentication switched on."""
    folder = tmp_path_factory.mktemp("locked")
    authority = Authority(folder)
    node = authority.sign("node")
    environ = os.environ | {
        "LAKEQUEUE_ROOT": str(folder / "root"),
        "LAKEQUEUE_TLS__CERT": str(node.cert),
        "LAKEQUEUE_TLS__KEY": str(node.key),
        "LAKEQUEUE_CA": str(authority.ca),
        "LAKEQUEUE_CONSUMER__WEBHOOK_ALLOW_PRIVATE": "true",
    }
    keys = {}
    for who, words in {"admin": ("init",), "ada": ("key", "create", "ada")}.items():
        file = folder / f"{who}.key"
        subprocess.run([*CLI, "auth", *words, "--key-file", str(file)], env=environ, check=True)
        keys[who] = file.read_text().strip()
    ports = [free_port(), free_port()]
    command = [*CLI, "up", "--ingest-port", str(ports[0]), "--consumer-port", str(ports[1])]
    with (folder / "up.err").open("w") as err:
        process = subprocess.Popen(
            [*command, "--log-level", "debug"],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
        )
    try:
        told = banner(process)
        at = {line.split()[0]: line.split()[1] for line in told.splitlines() if "127.0" in line}
        environ["LAKEQUEUE_API_KEY_FILE"] = str(folder / "admin.key")
        environ["LAKEQUEUE_INGEST__URL"] = at["ingest"]
        environ["LAKEQUEUE_CONSUMER__URL"] = at["consumers"]
        yield Locked(
            folder,
            process,
            at["ingest"],
            at["consumers"],
            at["driver"].removesuffix("/metrics"),
            at["ZooKeeper"],
            str(authority.ca),
            keys,
            environ,
        )
    finally:
        process.terminate()
        process.communicate(timeout=120)


def below(process: subprocess.Popen[str]) -> list[psutil.Process]:
    whole = psutil.Process(process.pid)
    return [whole, *whole.children(recursive=True)]


def listening(process: subprocess.Popen[str]) -> dict[int, str]:
    """Port → address, of every process that `up` has started."""
    found = {}
    for one in below(process):
        with contextlib.suppress(psutil.NoSuchProcess):
            for link in one.net_connections("tcp"):
                if link.status == psutil.CONN_LISTEN:
                    found[link.laddr.port] = link.laddr.ip
    return found


def answer_in_the_open(port: int, path: str) -> int | None:
    """The status of a GET without TLS and credentials; None: it is no HTTP that answers."""
    link = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        link.request("GET", path)
        return link.getresponse().status
    except (OSError, HTTPException):
        return None
    finally:
        link.close()


def said_to(port: int, raw: bytes) -> bytes:
    """What comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link:
        link.settimeout(2)
        link.sendall(raw)
        with contextlib.suppress(OSError):
            return link.recv(4096)
    return b""


def test_records_go_through_and_nodes_ask_each_other(locked: Locked) -> None:
    admin_is = locked.credentials("admin")
    secret = new_secret()
    with (
        Admin(locked.ingest, locked.consumer, credentials=admin_is, timeout_s=30) as admin,
        Endpoint(status(200)) as endpoint,
    ):
        admin.create_topic("orders", partitions=2)
        locked.cli("auth", "grant", "ada", "producer", "--topic", "orders")
        with Producer(locked.ingest, linger_ms=0, credentials=admin_is) as producer:
            producer.send("orders", {"id": 1}, key="a").result(30)
        ada_is = locked.credentials("ada")
        with Admin(locked.ingest, locked.consumer, credentials=ada_is) as hers:
            wait_for(lambda: [t.topic for t in hers.topics()] == ["orders"], "ada may send")
        with Producer(locked.ingest, linger_ms=0, credentials=ada_is) as producer:
            producer.send("orders", {"id": 2}, key="b").result(30)
        with Consumer("orders", group="billing", urls=locked.consumer, credentials=admin_is) as one:
            got = [next(iter(one)) for _ in range(2)]
            for message in got:
                message.ack()
        # The node that posts is a client of the nodes, with a key of its own.
        admin.set_webhook("mail", endpoint.url, ["orders"], secret=secret)
        with Producer(locked.ingest, linger_ms=0, credentials=admin_is) as producer:
            producer.send("orders", {"id": 3}).result(30)
        wait_for(lambda: endpoint.posts, "it is posted", every_s=0.2)
        post = endpoint.posts[0]
        verify(secret, post.headers, post.body, time.time())
        assert "billing" in locked.cli("group", "list")


def test_without_credentials_no_port_of_any_process_answers(locked: Locked) -> None:
    trust = ssl.create_default_context(cafile=locked.ca)
    http_ports = {httpx2.URL(url).port for url in (locked.ingest, locked.consumer, locked.driver)}
    zookeeper_port = int(locked.zookeeper.rpartition(":")[2])
    ports = listening(locked.process)
    assert http_ports | {zookeeper_port} <= set(ports)
    assert {ip.removeprefix("::ffff:") for ip in ports.values()} == {"127.0.0.1"}, ports
    for url in (locked.ingest, locked.consumer, locked.driver):
        with httpx2.Client(base_url=url, verify=trust, timeout=30) as http:
            document = http.get("/openapi.json", headers=as_(locked.keys["admin"]))
            paths = document.json()["paths"] if document.status_code == 200 else {}
            asked = [(m.upper(), p) for p, methods in paths.items() for m in methods]
            asked += [("GET", p) for p in ("/", "/metrics", "/healthz", "/readyz", "/commands")]
            for method, path in asked:
                plain = path.replace("{partition}", "0").replace("{offset}", "0")
                plain = plain.replace("{", "").replace("}", "")
                body = None if method == "GET" else dict[str, str]()
                answer = http.request(method, plain, json=body)
                assert answer.status_code == (200 if path in OPEN else 401), (url, method, path)
    for port in ports:
        for path in ("/v1/topics", "/metrics", "/", "/commands/monitor"):
            assert answer_in_the_open(port, path) is None, (port, path)
        # Nobody is greeted either: a port that speaks first has started something for a stranger.
        assert said_to(port, b"") == b"", port
    for word in (b"ruok", b"stat", b"cons", b"mntr", b"envi", b"conf", b"dump"):
        found = said_to(zookeeper_port, word)
        assert b"not in the whitelist" in found or not found, (word, found)
    client = KazooClient(hosts=locked.zookeeper, timeout=5)
    client.start(10)
    try:
        with pytest.raises(NoAuthError):
            client.get_children("/lakequeue")
    finally:
        client.stop()
        client.close()


def jobs_beside(locked: Locked, password: str, replica: Path, fork: Path) -> list[str]:
    """What each job says that runs outside `up`, with every secret in its environment."""
    rows = locked.folder / "rows"
    rows.mkdir()
    (rows / "two.json").write_text('{"id": 1}\n{"id": 2}\n')
    environ = locked.environ | {
        "LAKEQUEUE_API_KEY": locked.keys["admin"],
        "LAKEQUEUE_COORDINATION__PASSWORD": password,
        "LAKEQUEUE_ZOOKEEPER": locked.zookeeper,
    }
    checkpoint = str(locked.folder / "checkpoint")
    to = ("--topic", "canaries", "--checkpoint", checkpoint)
    stream_in = ("stream_in", "json", "--path", str(rows), *to, "--available-now")
    said = []
    for words in (
        ("compaction",),
        ("retention",),
        ("metrics",),
        ("mirror", "--to", str(replica)),
        ("fork", "--to", str(fork)),
        ("order", "--dry-run"),
        ("offsets", "--dry-run"),
        stream_in,
    ):
        done = subprocess.run(
            [*CLI, "job", "run", *words, "--log-level", "debug"],
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (words, done.stderr[-3000:])
        said.append(done.stdout + done.stderr)
    return said


def test_no_secret_is_anywhere(locked: Locked) -> None:
    password = (locked.root / "_work" / "zookeeper-password").read_text().strip()
    secret = new_secret()
    with Admin(
        locked.ingest, locked.consumer, credentials=locked.credentials("admin"), timeout_s=30
    ) as admin:
        admin.create_topic("canaries", partitions=1)
        admin.set_webhook("mail", "http://127.0.0.1:9/", ["canaries"], secret=secret)
    wrong = locked.keys["ada"][:-1] + ("A" if locked.keys["ada"][-1] != "A" else "B")
    canaries = {
        "admin's key": secret_of(locked.keys["admin"]),
        "ada's key": secret_of(locked.keys["ada"]),
        "a wrong key": secret_of(wrong),
        "a token": TOKEN.rpartition(".")[2],
        "a webhook's secret": secret.partition("_")[2],
        "ZooKeeper's password": password,
    }
    trust = ssl.create_default_context(cafile=locked.ca)
    told: list[str] = []
    for url in (locked.ingest, locked.consumer, locked.driver):
        with httpx2.Client(base_url=url, verify=trust, timeout=30) as http:
            for shown in (wrong, TOKEN, locked.keys["ada"], locked.keys["admin"]):
                for path in ("/v1/topics/none", "/v1/groups/none", "/metrics", "/readyz", "/no"):
                    told.append(http.get(path, headers=as_(shown)).text)
                    told.append(http.get(path, headers={"Authorization": f"Basic {shown}"}).text)
                bad = f'{{"secret": "{secret}", "url": 7, "topics"'.encode()
                for body in (bad, json.dumps({"secret": secret, "url": 7}).encode()):
                    answer = http.put(
                        "/v1/groups/other/webhook",
                        content=body,
                        headers={**as_(shown), "Content-Type": "application/json"},
                    )
                    told.append(answer.text)
    admin_is = locked.credentials("admin")
    with Admin(locked.ingest, locked.consumer, credentials=Credentials(wrong, ca=locked.ca)) as who:
        with pytest.raises(Unauthenticated) as refused:
            who.topics()
        told.append(f"{refused.value} {refused.value!r}")
    with Admin(locked.ingest, locked.consumer, credentials=admin_is) as admin:
        told.append(repr(admin.webhook("mail")))
        told.append(repr(admin_is))
    for words in (
        ("doctor",),
        ("config", "show"),
        ("config", "show", "--json"),
        ("auth", "list"),
        ("auth", "list", "--json"),
        ("auth", "key", "list"),
        ("webhook", "show", "mail"),
        ("topic", "describe", "none"),
    ):
        told.append(locked.cli(*words))
    copies = [locked.folder / name for name in ("replica", "fork")]
    told += jobs_beside(locked, password, *copies)
    for one in below(locked.process):
        with contextlib.suppress(psutil.NoSuchProcess):
            told.append(" ".join(one.cmdline()))
            told.append(json.dumps(one.environ()))
    texts = {"what was told": "\n".join(told).encode()}
    own = {locked.root / "_work" / "zookeeper-password"}
    below_roots = [path for root in (locked.root, *copies) for path in root.rglob("*")]
    files = [path for path in below_roots if path.is_file() and path not in own]
    files.append(locked.folder / "up.err")
    for file in files:
        with contextlib.suppress(FileNotFoundError):
            texts[str(file)] = file.read_bytes()
    logs = [name for name in texts if "/logs/" in name]
    assert len(logs) >= 4, "the logs of all processes are looked at"
    assert any("version-2/log" in name for name in texts), "and ZooKeeper's"
    found = {
        (what, where)
        for what, canary in canaries.items()
        for where, text in texts.items()
        if canary.encode() in text
    }
    assert not found
    assert all(path.stat().st_mode & 0o77 == 0 for path in own)
