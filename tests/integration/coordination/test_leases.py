"""Leases: exclusive, fenced by epochs, void with their session."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from coordination.embedded import EmbeddedZooKeeper
from coordination.groups.leases import (
    Lease,
    Owner,
    acquire,
    acquire_when_free,
    leases_of,
    release,
    retake,
)
from coordination.groups.membership import ensure_group
from coordination.zookeeper.session import Session
from lakequeue.errors import CoordinationUnavailable
from lakequeue.settings import CoordinationSettings
from tests.support.services.zookeeper import DEADLINE_S, MakeSession, erase, expire, wait_for

pytestmark = pytest.mark.zookeeper


def owner(session: Session, member: str = "m") -> Owner:
    return Owner(session.node, f"{session.node}-{session.boot}", f"{member}-{session.node}")


def take(session: Session, above: int = 0, partition: int = 0) -> Lease | None:
    ensure_group(session, "billing", "stream")
    return acquire(session, "billing", "topic-1", partition, owner(session), above)


def taken(session: Session, above: int = 0) -> Lease:
    lease = take(session, above)
    assert lease is not None
    return lease


def test_a_lease_has_one_owner_and_every_next_owner_a_higher_epoch(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    first = taken(a)
    assert first.trusted()
    assert take(b) is None
    assert leases_of(b, "billing")["topic-1", 0].owner == first.owner
    assert release(first)
    assert leases_of(b, "billing") == {}
    second = taken(b)
    assert second.epoch > first.epoch


def test_partitions_are_leased_apart(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    assert take(a, partition=0)
    assert take(b, partition=1)
    assert sorted(leases_of(a, "billing")) == [("topic-1", 0), ("topic-1", 1)]


def test_an_epoch_is_above_what_the_tables_record(sessions: MakeSession) -> None:
    a = sessions("a")
    lease = taken(a, above=1_000)
    assert lease.epoch == 1_001
    higher = retake(lease, above=2_000)
    assert higher is not None
    assert higher.epoch == 2_001
    assert not release(lease), "superseded by the same owner"
    assert release(higher)


def test_of_many_that_try_at_once_one_gets_it(sessions: MakeSession) -> None:
    callers = [sessions(node) for node in "abcd"]
    ensure_group(callers[0], "billing", "stream")
    for _ in range(10):
        with ThreadPoolExecutor(4) as pool:
            winners = [lease for lease in pool.map(take, callers) if lease is not None]
        assert len(winners) == 1
        assert release(winners[0])


def test_a_lost_session_voids_its_leases_and_does_not_take_them_again(
    sessions: MakeSession,
) -> None:
    a, b = sessions("a"), sessions("b")
    lease = taken(a)
    expire(a)
    assert lease.lost()
    wait_for(a.trusted)
    assert not lease.trusted(), "the new session is trusted, the old lease is not"
    assert leases_of(b, "billing") == {}
    assert not release(lease)
    assert retake(lease, 0) is None
    assert taken(b).epoch > lease.epoch


def test_a_late_release_does_not_remove_the_next_owners_lease(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    lease = taken(a)
    a.call(a.kazoo.delete_async, a.path("groups", "billing", "leases", "topic-1:0"))
    other = taken(b)
    assert not lease.lost()
    assert not release(lease)
    assert leases_of(a, "billing")["topic-1", 0].owner == other.owner


def test_trust_ends_at_once_when_zookeeper_is_away_and_the_lease_survives_with_the_session(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    a = sessions("a", server=own_zookeeper, settings=CoordinationSettings())
    lease = taken(a)
    own_zookeeper.kill()
    wait_for(lambda: not lease.trusted(), timeout_s=2)
    with pytest.raises(CoordinationUnavailable):
        take(a)
    own_zookeeper.start()
    wait_for(lease.trusted)
    assert leases_of(a, "billing")["topic-1", 0].epoch == lease.epoch


def test_an_acquisition_whose_answer_was_lost_is_taken_anew_under_a_higher_epoch(
    sessions: MakeSession,
) -> None:
    a = sessions("a")
    lost_answer = taken(a)
    again = taken(a)
    assert again.epoch > lost_answer.epoch
    assert take(sessions("b")) is None


def test_another_member_of_the_same_node_waits_like_everybody(sessions: MakeSession) -> None:
    a = sessions("a")
    taken(a)
    assert acquire(a, "billing", "topic-1", 0, owner(a, "other")) is None


def test_a_rebuilt_ensemble_hands_out_no_old_epoch(
    own_zookeeper: EmbeddedZooKeeper, sessions: MakeSession
) -> None:
    a = sessions("a", server=own_zookeeper)
    for _ in range(3):
        lease = taken(a)
        assert release(lease)
    erase(own_zookeeper)
    own_zookeeper.start()
    wait_for(lambda: a.incarnation > 0 and a.trusted())
    assert taken(a, above=lease.epoch).epoch == lease.epoch + 1


def test_who_waits_gets_the_lease_when_it_comes_free(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    lease = taken(a)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            acquire_when_free, b, "billing", "topic-1", 0, owner(b), 0, DEADLINE_S
        )
        release(lease)
        got = waiting.result(DEADLINE_S)
    assert got is not None
    assert got.epoch > lease.epoch


def test_who_gives_up_or_runs_out_of_time_gets_nothing(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    taken(a)
    assert acquire_when_free(b, "billing", "topic-1", 0, owner(b), 0, 0.05) is None
    given_up = acquire_when_free(b, "billing", "topic-1", 0, owner(b), 0, DEADLINE_S, lambda: True)
    assert given_up is None


def test_a_watch_tells_of_leases_taken_and_released(sessions: MakeSession) -> None:
    a, b = sessions("a"), sessions("b")
    ensure_group(a, "billing", "stream")
    changed = threading.Event()
    assert leases_of(b, "billing", changed) == {}
    lease = taken(a)
    assert changed.wait(DEADLINE_S)
    changed.clear()
    assert len(leases_of(b, "billing", changed)) == 1
    release(lease)
    assert changed.wait(DEADLINE_S)


def test_a_lease_taken_while_the_session_is_replaced_is_not_left_behind(
    sessions: MakeSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = sessions("a"), sessions("b")
    transact = a.transact
    calls: list[Any] = []

    def replaced_first(*operations: Any) -> list[Any]:
        if not calls:
            expire(a)
        calls.append(operations)
        return transact(*operations)

    monkeypatch.setattr(a, "transact", replaced_first)
    lease = taken(a)
    assert len(calls) == 2
    assert not lease.lost()
    assert release(lease)
    assert leases_of(b, "billing") == {}
