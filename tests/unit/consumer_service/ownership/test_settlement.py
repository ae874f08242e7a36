"""Facts of owned partitions: on their way, settled, refused."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from consumer_service.ownership.journal import Entry, Journal
from consumer_service.ownership.owned_partition import OwnedPartition
from consumer_service.ownership.settlement import Settlement, check_trusted
from consumer_service.ownership.takeover import fact_of
from lakequeue.errors import CoordinationUnavailable, Overloaded, StorageUnavailable
from lakequeue.records import Partition, TopicId
from queue_tables.groups.facts import Fact, Key, Kind


@dataclass
class Waiting:
    """A journal that holds back what it is given."""

    entries: list[Entry] = field(default_factory=list)
    futures: list[Future[object]] = field(default_factory=list)
    full: bool = False

    def submit(self, facts: list[Fact]) -> tuple[Entry, Future[object]]:
        if self.full:
            raise Overloaded("full", hint="wait")
        self.entries.append(Entry(facts))
        self.futures.append(Future())
        return self.entries[-1], self.futures[-1]


def held_at(partition: int) -> OwnedPartition:
    owned = OwnedPartition(Key("g", TopicId("t"), Partition(partition)), "orders", "m")
    lease: Any = SimpleNamespace(epoch=1, trusted=lambda: True)
    owned.lease = lease
    return owned


def fact(owned: OwnedPartition) -> Fact:
    return fact_of(Kind.COMMITTED, owned, 0, 7, 1)


def settlement_of(journal: Waiting, *owned: OwnedPartition) -> Settlement:
    return Settlement(cast("Journal", journal), owned)


def test_a_partition_is_not_handed_over_before_its_facts_are_settled() -> None:
    journal, owned, said = Waiting(), held_at(0), []
    with settlement_of(journal, owned) as settlement:
        settlement.submit([fact(owned)], lambda one, stands: said.append((one, stands)))
    assert (owned.pending, owned.settle(0)) == (1, False)
    journal.futures[0].set_result(None)
    settlement.wait("again")
    assert (owned.pending, owned.settle(0), said) == (0, True, [(owned, True)])


def test_what_is_durable_at_once_is_settled_after_the_change_and_not_within() -> None:
    journal, owned, order = Waiting(), held_at(0), []
    with settlement_of(journal, owned) as settlement:
        settlement.submit([fact(owned)], lambda *_: order.append("settled"))
        journal.futures[0].set_result(None)
        order.append("changed")
    assert order == ["changed", "settled"]


def test_a_fence_is_noted_where_it_was_met_and_the_others_stand() -> None:
    journal, one, other, said = Waiting(), held_at(0), held_at(1), {}
    with settlement_of(journal, other, one) as settlement:
        settlement.submit([fact(one), fact(other)], lambda h, stands: said.update({h.key: stands}))
    journal.entries[0].refused[one.key] = 5
    journal.futures[0].set_result(None)
    settlement.wait("again")
    assert said == {one.key: False, other.key: True}
    assert (one.superseded_by, other.superseded_by) == (5, 0)
    assert (settlement.newer_epoch(one), settlement.newer_epoch(other)) == (5, None)


def test_what_failed_is_settled_too_and_raised_to_who_waits() -> None:
    journal, owned, said = Waiting(), held_at(0), []
    with settlement_of(journal, owned) as settlement:
        settlement.submit([fact(owned)], lambda _, stands: said.append(stands))
    journal.futures[0].set_exception(StorageUnavailable("away", hint="wait"))
    with pytest.raises(StorageUnavailable, match="away"):
        settlement.wait("again")
    assert (said, owned.pending, owned.superseded_by) == ([False], 0, 0)


def test_nothing_is_on_its_way_when_the_journal_is_full_or_nothing_was_said() -> None:
    journal, owned = Waiting(full=True), held_at(0)
    with settlement_of(journal, owned) as settlement, pytest.raises(Overloaded):
        settlement.submit([fact(owned)])
    assert (owned.pending, settlement.submitted) == (0, False)
    settlement.wait("again")


def test_a_fault_in_what_follows_leaves_no_partition_on_its_way() -> None:
    journal, one, other = Waiting(), held_at(0), held_at(1)

    def fails(owned: OwnedPartition, _stands: bool) -> None:
        if owned is one:
            raise ValueError("a fault")

    with settlement_of(journal, one, other) as settlement:
        settlement.submit([fact(one), fact(other)], fails)
    journal.futures[0].set_result(None)
    with pytest.raises(ValueError, match="a fault"):
        settlement.wait("again")
    assert (one.pending, other.pending) == (0, 0)


def test_a_lease_that_ran_out_while_it_was_committed_makes_the_outcome_unknown() -> None:
    owned = held_at(0)
    check_trusted([owned], "ack again")
    lost: Any = SimpleNamespace(epoch=1, trusted=lambda: False)
    owned.lease = lost
    with pytest.raises(CoordinationUnavailable) as caught:
        check_trusted([owned], "ack again")
    assert caught.value.stored == "unknown"
