"""How long a session is trusted, through every trouble the ensemble can have."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from coordination.embedded import MIN_SESSION_MS, EmbeddedZooKeeper, free_port
from coordination.zookeeper.registry import nodes, register
from coordination.zookeeper.session import Session
from coordination.zookeeper.session_reaper import close_dead_session
from lakequeue.clock import boot_seconds, wall_micros
from lakequeue.errors import CoordinationUnavailable
from lakequeue.settings import CoordinationSettings
from tests.support.faults.stopped import stopped
from tests.support.services.zookeeper import FAST, MakeSession, erase, expire, wait_for

pytestmark = pytest.mark.zookeeper
PROJECT = Path(__file__).parents[3]

HOLDER = """
import sys
from pathlib import Path
from coordination.zookeeper.registry import register
from coordination.zookeeper.session import Session
from lakequeue.processes.logs import log_to_stderr
from lakequeue.settings import CoordinationSettings
log_to_stderr("info")  # standard output is for the answers
hosts, queue_id, node, timeout_s, remember_in = sys.argv[1:]
settings = CoordinationSettings(session_timeout_s=float(timeout_s), lease_margin_s=0.3)
session = Session(hosts, queue_id, node, settings, Path(remember_in))
session.start()
register(session, "ingest", node, {})
print("registered", flush=True)
input()
"""


def start_holder(
    session: Session, node: str, timeout_s: float, remember_in: Path
) -> subprocess.Popen[str]:
    """Another process that registers as `node` and waits."""
    arguments = [session.hosts, session.queue_id, node, str(timeout_s), str(remember_in)]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=PROJECT,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "registered\n"
    return holder


def test_a_session_that_has_started_knows_that_it_is_connected(
    zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library says so first to who waits for the start, and then to its listeners."""
    session = Session(zookeeper.hosts, "starts", "late", FAST)
    tells, may_tell = session.kazoo._make_state_change, threading.Event()

    def late(state: str) -> None:
        assert may_tell.wait(60)
        tells(state)

    monkeypatch.setattr(session.kazoo, "_make_state_change", late)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(session.start)
        wait_for(session.kazoo._live.is_set, "the connection is there")
        assert wait([started], timeout=0.3).not_done, "nobody has told it yet"
        may_tell.set()
        started.result(60)
    session.stop()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_nothing_that_answers_is_a_clear_error() -> None:
    session = Session(f"127.0.0.1:{free_port()}", "q", "a", FAST)
    with pytest.raises(CoordinationUnavailable, match="did not answer in 1 s"):
        session.start(timeout_s=1)


def test_trust_reaches_from_before_a_round_trip_and_moves_on(sessions: MakeSession) -> None:
    session = sessions()
    reach = session.timeout_s - FAST.lease_margin_s
    first = session.trusted_until
    assert session.trusted()
    assert first <= boot_seconds() + reach
    wait_for(lambda: session.trusted_until > first, "the heartbeat moves trust on")
    assert session.trusted_until <= boot_seconds() + reach


def test_the_timeout_that_counts_is_the_one_the_server_granted(sessions: MakeSession) -> None:
    asked = CoordinationSettings(session_timeout_s=0.2, lease_margin_s=0.1)
    granted_s = sessions(settings=asked).timeout_s
    assert granted_s == pytest.approx(MIN_SESSION_MS / 1_000, abs=0.01)


def test_a_killed_server_ends_trust_at_once_and_the_session_survives_its_restart(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session = sessions(server=own_zookeeper, settings=CoordinationSettings())
    own_zookeeper.kill()
    wait_for(lambda: not session.trusted(), "trust ends", timeout_s=2)
    assert session.trusted_until > boot_seconds(), "not by its end, but because of the connection"
    with pytest.raises(CoordinationUnavailable, match="does not answer"):
        session.children("/")
    own_zookeeper.start()
    wait_for(session.trusted, "trusted again")
    assert session.incarnation == 0


def test_a_frozen_server_ends_trust_by_the_clock(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session = sessions(server=own_zookeeper)
    with stopped(own_zookeeper.pid):
        frozen_at = boot_seconds()
        wait_for(lambda: not session.trusted(), "trust ends")
        assert boot_seconds() <= frozen_at + session.timeout_s
    wait_for(session.trusted, "trusted again")


def test_a_rebuilt_ensemble_is_let_in_and_the_old_session_counts_as_lost(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session = sessions(server=own_zookeeper)
    for number in range(50):  # far ahead of anything that the new one will have seen
        session.ensure(session.path("history", str(number)))
    erase(own_zookeeper)
    own_zookeeper.start()
    wait_for(lambda: session.incarnation > 0, "the loss is noticed")
    wait_for(session.trusted, "trusted in a new session")
    assert session.read(session.path("history", "1")) is None


def test_registrations_are_made_again_after_a_loss_and_in_a_rebuilt_ensemble(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session, reader = sessions("a", server=own_zookeeper), sessions("r", server=own_zookeeper)
    register(session, "ingest", "a", {"url": "http://127.0.0.1:1"})
    expire(session)
    wait_for(lambda: list(nodes(reader, "ingest")) == ["a"], "registered again")
    erase(own_zookeeper)
    own_zookeeper.start()
    wait_for(reader.trusted)
    wait_for(lambda: list(nodes(reader, "ingest")) == ["a"], "registered in the new ensemble")


def test_what_was_kept_while_away_is_made_on_return_and_what_was_dropped_is_deleted(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    session = sessions(server=own_zookeeper, settings=CoordinationSettings())
    register(session, "ingest", "old", {})
    own_zookeeper.kill()
    wait_for(lambda: not session.connected.is_set())
    session.drop(session.path("nodes", "ingest", f"old~{session.boot}"))
    with pytest.raises(CoordinationUnavailable):
        register(session, "ingest", "new", {})
    own_zookeeper.start()
    wait_for(session.trusted)
    wait_for(lambda: list(nodes(session, "ingest")) == ["new"], "made and deleted late")
    assert session.incarnation == 0


def test_a_clock_that_is_off_is_measured(
    sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert abs(sessions("good").skew_s) < 1
    real = sessions("b")
    patched = "coordination.zookeeper.session.wall_micros"
    with monkeypatch.context() as patch:
        patch.setattr(patched, lambda: wall_micros() + 7_000_000)
        off = sessions("off")
        wait_for(lambda: abs(off.skew_s - 7.0) < 0.5, "a measured skew")
    with monkeypatch.context() as patch:
        patch.setattr(patched, lambda: wall_micros() - 60_000_000)
        assert real.skew_s == pytest.approx(-60.0, abs=0.5), "a jump is seen without asking"
    assert abs(real.skew_s) < 1


def test_a_restarted_node_registers_at_once_while_the_killed_ones_entry_lives(
    sessions: MakeSession, tmp_path: Path
) -> None:
    reader = sessions("reader")
    holder = start_holder(reader, "a", 10.0, tmp_path / "elsewhere")
    boot = nodes(reader, "ingest")["a"]["boot"]
    end(holder)
    session = sessions("a")
    register(session, "ingest", "a", {})
    found = nodes(reader, "ingest")
    assert found["a"]["boot"] == session.boot != boot
    # The old entry is there still: nobody has told ZooKeeper of the death.
    assert len(reader.children(reader.path("nodes", "ingest"))) == 2


def test_the_next_process_of_a_name_ends_the_session_of_a_killed_one_at_once(
    sessions: MakeSession, tmp_path: Path
) -> None:
    reader, remember_in = sessions("reader"), tmp_path / "session-a"
    end(start_holder(reader, "a", 10.0, remember_in))
    assert list(nodes(reader, "ingest")) == ["a"]
    sessions("a", remember_in=remember_in)
    assert list(nodes(reader, "ingest")) == []


def test_the_session_of_a_living_process_is_not_ended(
    sessions: MakeSession, tmp_path: Path
) -> None:
    reader, remember_in = sessions("reader"), tmp_path / "session-a"
    holder = start_holder(reader, "a", 10.0, remember_in)
    assert not close_dead_session(remember_in)
    assert list(nodes(reader, "ingest")) == ["a"]
    end(holder)
    assert close_dead_session(remember_in)
    assert list(nodes(reader, "ingest")) == []


def test_two_live_nodes_of_one_name_are_told_once_the_elder_outlives_a_session(
    sessions: MakeSession,
) -> None:
    quick = CoordinationSettings(session_timeout_s=1.0, lease_margin_s=0.2)
    elder, younger = sessions("a", settings=quick), sessions("a", settings=quick)
    register(elder, "ingest", "a", {})
    registration = register(younger, "ingest", "a", {})
    registration.check_alone()

    def refused() -> bool:
        try:
            registration.check_alone()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is shown
            return "in use by another live ingest process" in str(error)
        return False

    wait_for(refused, "the name is refused")
    elder.stop()
    wait_for(lambda: not refused(), "alone again")
