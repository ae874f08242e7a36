"""Moves of one queue partition as facts of a group, and what they fold to."""

from __future__ import annotations

from lakequeue.records import Epoch, Partition, TopicId
from queue_rules.queues.attempts import Move
from queue_rules.queues.record_facts import record_facts
from queue_tables.groups.facts import Fact, Key, Kind, States
from queue_tables.groups.record_states import NOTHING, RecordStates

KEY = Key("g", TopicId("t1"), Partition(0))
MS = 1_000
BASE = Fact(Kind.TAKEN, "g", "orders", KEY.topic_id, KEY.partition, 0, Epoch(1), mode="queue")


def facts_of(moves: list[Move]) -> list[Fact]:
    return record_facts(BASE, moves)


def states_of(states: States) -> RecordStates:
    return states[KEY].records if KEY in states else NOTHING
