"""With a password, the nodes of a queue are for the processes that show it, and for nobody else."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import OPEN_ACL_UNSAFE
from pydantic import SecretStr

from coordination.embedded import EmbeddedZooKeeper, free_port
from coordination.groups.membership import ensure_group
from coordination.zookeeper.closing import close_nodes
from coordination.zookeeper.registry import nodes, register
from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationForbidden, CoordinationUnavailable, InvalidSetting
from lakequeue.processes import programs
from lakequeue.settings import CoordinationSettings
from queue_tables.root import QueueRoot
from tests.support.access.certificates import Authority
from tests.support.services.zookeeper import FAST, MakeSession, erase, wait_for

pytestmark = pytest.mark.zookeeper


def with_password(password: str, **more: object) -> CoordinationSettings:
    return FAST.model_copy(update={"password": SecretStr(password), **more})


@contextmanager
def stranger(hosts: str) -> Iterator[KazooClient]:
    """A client that shows no password."""
    client = KazooClient(hosts=hosts, timeout=4)
    client.start(30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def paths(session: Session, at: str) -> list[str]:
    """A node and all below it."""
    below = session.children(at)
    return [at, *(path for name in below for path in paths(session, f"{at}/{name}"))]


def assert_closed(session: Session, hosts: str) -> None:
    """Whoever shows no password can neither read, list, write, delete, nor add a node."""
    with stranger(hosts) as client:
        found = paths(session, session.path())
        assert len(found) > 3
        for path in ("/lakequeue", *found):
            with pytest.raises(NoAuthError):
                client.get(path)
            with pytest.raises(NoAuthError):
                client.get_children(path)
            with pytest.raises(NoAuthError):
                client.set(path, b"mine")
            with pytest.raises(NoAuthError):
                client.create(f"{path}/mine", b"")
            with pytest.raises(NoAuthError):
                client.set_acls(path, OPEN_ACL_UNSAFE)
            if path not in {"/lakequeue"}:
                with pytest.raises(NoAuthError):
                    client.delete(path)


def test_a_client_without_the_password_can_neither_read_nor_write(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session = sessions(server=own_zookeeper, settings=with_password("one"))
    register(session, "ingest", "a", {"url": "http://a"})
    ensure_group(session, "billing", "queue", {"max_attempts": 3})
    assert_closed(session, own_zookeeper.hosts)
    other = sessions("b", server=own_zookeeper, settings=with_password("one"))
    assert list(nodes(other, "ingest")) == ["a"]


@pytest.mark.parametrize("shown", [FAST, with_password("another")])
def test_whoever_shows_no_or_another_password_does_not_start(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession, shown: CoordinationSettings
) -> None:
    first = sessions(server=own_zookeeper, settings=with_password("one"))
    session = Session(own_zookeeper.hosts, first.queue_id, "b", shown)
    with pytest.raises(CoordinationForbidden, match="another password"):
        session.start()
    session.kazoo.stop()
    session.kazoo.close()


def test_nodes_that_were_open_are_closed_by_the_first_that_shows_a_password(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    early = sessions("early", server=own_zookeeper)
    register(early, "ingest", "early", {"url": "http://early"})
    for number in range(300):
        ensure_group(early, f"g{number}", "queue", {})
    with stranger(own_zookeeper.hosts) as client:
        assert client.get_children(early.path("groups"))
        # A mark that anybody could have made counts for nothing.
        client.create(early.path("closed"), b"")
    session = sessions("late", server=own_zookeeper, settings=with_password("one"))
    assert_closed(session, own_zookeeper.hosts)
    assert close_nodes(session) == 0, "it is done once"
    with pytest.raises(CoordinationForbidden):
        early.read(early.path("groups", "g1"))


def test_what_is_made_anew_in_an_empty_ensemble_is_closed_too(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session = sessions(server=own_zookeeper, settings=with_password("one"))
    register(session, "ingest", "a", {"url": "http://a"})
    erase(own_zookeeper)
    own_zookeeper.start()
    wait_for(lambda: session.trusted() and nodes(session, "ingest"), "it is registered again")
    assert_closed(session, own_zookeeper.hosts)


def test_a_new_password_is_set_by_the_command(
    own_zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    root = QueueRoot.open(str(tmp_path / "root"), create=True)
    first = Session(own_zookeeper.hosts, root.queue_id, "a", with_password("one"))
    first.start()
    ensure_group(first, "billing", "queue", {})
    first.stop()
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("one\n")
    new.write_text("two\n")
    command = [*programs.command("lakequeue_cli.app"), "auth", "zookeeper"]
    done = subprocess.run(
        [*command, "--root", root.uri, "--old-password-file", str(old)],
        env={
            **os.environ,
            "LAKEQUEUE_ZOOKEEPER": own_zookeeper.hosts,
            "LAKEQUEUE_COORDINATION__PASSWORD_FILE": str(new),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    second = Session(
        own_zookeeper.hosts,
        root.queue_id,
        "a",
        FAST.model_copy(update={"password_file": new}),
    )
    second.start()
    assert second.children(second.path("groups")) == ["billing"]
    second.stop()
    third = Session(own_zookeeper.hosts, root.queue_id, "a", with_password("one"))
    with pytest.raises(CoordinationForbidden):
        third.start()
    third.kazoo.stop()
    third.kazoo.close()


# -- TLS ------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def secure_server(folder: Path, authority: Authority, **server: str) -> Iterator[str]:
    """`host:port` of a server that speaks TLS alone."""
    files = authority.sign("server")
    both = folder / "both.pem"
    both.write_text(files.key.read_text() + files.cert.read_text())
    port = free_port()
    command = [*programs.command("coordination.embedded"), "--data-dir", str(folder / "zk")]
    with (folder / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--parent", str(os.getpid())],
            env={**programs.environment(), "LAKEQUEUE_SERVER__CERT": str(both), **server},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")
def test_zookeeper_is_spoken_to_in_tls_and_known_by_its_certificate(
    tmp_path: Path, authority: Authority
) -> None:
    with secure_server(tmp_path, authority) as hosts:
        trusted = with_password("one", tls=True, ca=authority.ca)
        remembered = tmp_path / "session"
        session = Session(hosts, "q", "a", trusted, remembered)
        session.start(60)
        register(session, "ingest", "a", {"url": "http://a"})
        assert list(nodes(session, "ingest")) == ["a"]
        for wrong in (
            with_password("one", tls=True),  # the system's authorities alone
            with_password("one"),  # in the open
        ):
            other = Session(hosts, "q", "b", wrong)
            with pytest.raises(CoordinationUnavailable):
                other.start(2)
        # The same server under a name that its certificate does not have.
        elsewhere = Session(hosts.replace("127.0.0.1", "127.0.0.2"), "q", "b", trusted)
        with pytest.raises(CoordinationUnavailable):
            elsewhere.start(2)
        session.stop()


@pytest.mark.filterwarnings("ignore:unclosed <ssl:ResourceWarning")
def test_clients_show_a_certificate_if_the_server_asks_for_one(
    tmp_path: Path, authority: Authority
) -> None:
    needs = {"LAKEQUEUE_SERVER__CLIENT_CA": str(authority.ca)}
    files = authority.sign("a-node")
    with secure_server(tmp_path, authority, **needs) as hosts:
        shown = with_password("one", tls=True, ca=authority.ca, cert=files.cert, key=files.key)
        session = Session(hosts, "q", "a", shown)
        session.start(60)
        assert_closed_to_no_certificate(hosts, authority)
        session.stop()


def assert_closed_to_no_certificate(hosts: str, authority: Authority) -> None:
    other = Session(hosts, "q", "b", with_password("one", tls=True, ca=authority.ca))
    with pytest.raises(CoordinationUnavailable):
        other.start(2)


def test_files_for_tls_without_tls_are_a_mistake(authority: Authority) -> None:
    settings = CoordinationSettings(ca=authority.ca)
    with pytest.raises(InvalidSetting, match=r"coordination\.tls"):
        Session("127.0.0.1:1", "q", "a", settings)
