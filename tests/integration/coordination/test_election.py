"""One leader at a time, and how a leader learns that its term is over."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.zookeeper.election import Election, State, leader
from coordination.zookeeper.epochs import next_epoch
from coordination.zookeeper.session import Session
from coordination.zookeeper.session_reaper import close_dead_session
from lakequeue.settings import CoordinationSettings
from tests.support.faults.stopped import stopped
from tests.support.services.zookeeper import DEADLINE_S, MakeSession, erase, expire, wait_for

pytestmark = pytest.mark.zookeeper

LEADER = """
import sys
from pathlib import Path
from coordination.zookeeper.election import Election
from coordination.zookeeper.session import Session
from lakequeue.processes.logs import log_to_stderr
from lakequeue.settings import CoordinationSettings
log_to_stderr("info")  # standard output is for the answers
hosts, queue_id, remember_in = sys.argv[1:]
settings = CoordinationSettings(session_timeout_s=4.0, lease_margin_s=0.5)
session = Session(hosts, queue_id, "child", settings, Path(remember_in))
session.start()
election = Election(session, "order").start()
assert election.wait_leading(20)
print("leading", flush=True)
for _ in sys.stdin:
    print(election.trusted(), flush=True)
"""

Campaign = Callable[..., Election]


@pytest.fixture
def campaign() -> Iterator[Campaign]:
    started: list[Election] = []

    def start(session: Session, name: str = "order") -> Election:
        started.append(Election(session, name).start())
        return started[-1]

    yield start
    for election in started:
        election.stop()


@pytest.fixture
def child_leader(tmp_path: Path) -> Iterator[Callable[[Session], subprocess.Popen[str]]]:
    """A process that leads; it answers each line with whether it trusts its leadership."""
    children: list[subprocess.Popen[str]] = []

    def start(session: Session) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [
                sys.executable,
                "-c",
                LEADER,
                session.hosts,
                session.queue_id,
                str(tmp_path / "child-session"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
        )
        children.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == "leading\n"
        return child

    yield start
    for child in children:
        child.kill()
        child.communicate()


def test_the_first_leads_the_second_stands_by_and_takes_over(
    sessions: MakeSession, campaign: Campaign
) -> None:
    one, two = sessions("a"), sessions("b")
    first = campaign(one)
    assert first.wait_leading(DEADLINE_S)
    second = campaign(two)
    wait_for(lambda: second.state is State.STANDBY)
    assert not second.leading.is_set()
    first.announce({"epoch": 7})
    said = leader(two, "order")
    assert said is not None
    assert (said["node"], said["epoch"]) == ("a", 7)
    first.resign()
    assert second.wait_leading(DEADLINE_S)
    assert not first.leading.is_set()
    assert not first.wait_leading(0), "a resigned candidate does not come back"


def test_elections_of_different_names_do_not_meet(
    sessions: MakeSession, campaign: Campaign
) -> None:
    session = sessions()
    assert campaign(session, "order").wait_leading(DEADLINE_S)
    assert campaign(session, "offsets").wait_leading(DEADLINE_S)


def test_two_candidates_in_one_process_do_not_both_lead(
    sessions: MakeSession, campaign: Campaign
) -> None:
    session = sessions()
    first = campaign(session)
    assert first.wait_leading(DEADLINE_S)
    second = campaign(session)
    wait_for(lambda: second.state is State.STANDBY)


def test_a_lost_session_ends_the_term(sessions: MakeSession, campaign: Campaign) -> None:
    session, other = sessions("a"), sessions("b")
    election = campaign(session)
    assert election.wait_leading(DEADLINE_S)
    term = election.term
    standby = campaign(other)
    wait_for(lambda: standby.state is State.STANDBY)
    expire(session)
    assert not election.leads(term)
    # Who leads next is open: the one that lost its session is back with a new one at once.
    wait_for(lambda: {election.state, standby.state} == {State.LEADING, State.STANDBY})
    assert not election.leads(term)


def test_a_lost_session_without_a_rival_is_a_new_term(
    sessions: MakeSession, campaign: Campaign
) -> None:
    session = sessions()
    election = campaign(session)
    assert election.wait_leading(DEADLINE_S)
    term = election.term
    expire(session)
    wait_for(lambda: election.term > term and election.leading.is_set())
    assert election.leads(election.term)
    assert not election.leads(term)


def test_a_leader_leads_on_while_zookeeper_is_away_and_is_not_trusted(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession, campaign: Campaign
) -> None:
    session = sessions(server=own_zookeeper, settings=CoordinationSettings())
    election = campaign(session)
    assert election.wait_leading(DEADLINE_S)
    term = election.term
    assert election.trusted()
    own_zookeeper.kill()
    wait_for(lambda: not session.connected.is_set())
    assert not election.trusted()
    assert election.leads(term)
    own_zookeeper.start()
    wait_for(election.trusted, "trusted again")
    assert election.leads(term), "its session survived: the same term"


def test_a_rebuilt_ensemble_ends_the_term_and_gives_no_old_epoch(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession, campaign: Campaign
) -> None:
    session = sessions(server=own_zookeeper)
    election = campaign(session)
    assert election.wait_leading(DEADLINE_S)
    term = election.term
    recorded = next_epoch(session, "order", above=40)
    assert recorded == 41
    erase(own_zookeeper)
    own_zookeeper.start()
    wait_for(lambda: election.term > term and election.trusted(), "elected anew")
    assert next_epoch(session, "order", above=recorded) == 42


def test_epochs_taken_at_once_by_many_are_all_different(sessions: MakeSession) -> None:
    from concurrent.futures import ThreadPoolExecutor

    callers = [sessions(node) for node in "abcd"]
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda s: [next_epoch(s, "order", 0) for _ in range(10)], callers))
    flat = [epoch for each in taken for epoch in each]
    assert len(set(flat)) == 40
    assert all(each == sorted(each) for each in taken)


def test_a_killed_leader_is_replaced_after_its_session_timeout(
    sessions: MakeSession,
    campaign: Campaign,
    child_leader: Callable[[Session], subprocess.Popen[str]],
) -> None:
    session = sessions("standby")
    child = child_leader(session)
    standby = campaign(session)
    wait_for(lambda: standby.state is State.STANDBY)
    child.kill()
    assert standby.wait_leading(DEADLINE_S)


def test_a_killed_leader_whose_session_is_closed_by_another_is_replaced_at_once(
    sessions: MakeSession,
    campaign: Campaign,
    child_leader: Callable[[Session], subprocess.Popen[str]],
    tmp_path: Path,
) -> None:
    session = sessions("standby")
    child = child_leader(session)
    standby = campaign(session)
    wait_for(lambda: standby.state is State.STANDBY)
    child.kill()
    child.wait()
    assert close_dead_session(tmp_path / "child-session")
    assert standby.wait_leading(1)


def test_a_leader_that_was_frozen_does_not_trust_itself_when_it_wakes(
    sessions: MakeSession,
    campaign: Campaign,
    child_leader: Callable[[Session], subprocess.Popen[str]],
) -> None:
    session = sessions("standby")
    child = child_leader(session)
    assert child.stdin is not None
    assert child.stdout is not None
    standby = campaign(session)
    with stopped(child.pid):
        assert standby.wait_leading(DEADLINE_S)
        # The question waits in the pipe: it is the first thing that the woken process answers.
        child.stdin.write("trusted?\n")
        child.stdin.flush()
    assert child.stdout.readline() == "False\n"
