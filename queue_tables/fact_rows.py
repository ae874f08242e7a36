"""Facts and states as rows: of journal shards, and of `group_offsets`."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from lakequeue.records import Epoch, Partition, ShardName, TopicId
from queue_tables.facts import Fact, GroupState, Kind, States, Word, committed_of, state_of
from queue_tables.record_rows import record_news, states_of_columns, states_to_columns
from queue_tables.record_states import RECORD_KINDS
from queue_tables.schemas import GROUP_OFFSETS, JOURNAL

_FACTS = pa.schema([f for f in JOURNAL.arrow if f.name not in {"hour", "stamp", "row"}])
_FACT_COLUMNS = _FACTS.names
_OF_RECORDS = ["seen", "open", "dead", "expired", "ends_known_from"]


def to_arrow(facts: Iterable[Fact]) -> pa.Table:
    """The rows of `facts` for a journal shard: without hour, stamp and row, which a shard adds."""
    many = list(facts)
    columns = [pa.array([getattr(f, of.name) for f in many], of.type) for of in _FACTS]
    return pa.table(columns, schema=_FACTS)


def from_arrow(table: pa.Table, shard: ShardName) -> list[Fact]:
    """The facts in rows that were read from `shard`; kinds of newer releases are passed over."""
    rows = _micros(table.select(_FACT_COLUMNS), "at", "until", "first_at", "expires_at").to_pylist()
    known = set(Kind)
    return [
        Fact(
            **(
                row
                | {"kind": Kind(row["kind"]), "shard": shard}
                | {name: row[name] or "" for name in ("member", "reason", "dead_letter", "options")}
            )
        )
        for row in rows
        if row["kind"] in known
    ]


def news_from_arrow(table: pa.Table, shard: ShardName) -> list[GroupState]:
    """What rows that were read from `shard` say, for `fold_news`: many facts at once."""
    of_records = pc.is_in(table["kind"], pa.array(sorted(RECORD_KINDS)))
    news = [state_of(fact) for fact in from_arrow(table.filter(pc.invert(of_records)), shard)]
    news += [
        GroupState(
            one.group,
            TopicId(one.topic_id),
            Partition(one.partition),
            topic=one.topic,
            mode=one.mode,
            generation=one.generation,
            committed_offset=committed_of(None, one.states),
            epoch=Epoch(one.epoch),
            owner_shard=shard,
            changed_at=one.changed_at,
            records=one.states,
        )
        for one in record_news(table.filter(of_records))
    ]
    return news


def states_to_arrow(states: Iterable[GroupState]) -> pa.Table:
    """The rows of `group_offsets`, in the order of their keys."""
    ordered = sorted(states, key=lambda state: state.key)
    columns = states_to_columns([state.records for state in ordered])
    columns["holders"] = pa.array(
        [
            [
                {"shard": shard, "epoch": word.epoch, "taken": word.taken}
                for shard, word in sorted(state.holders.items())
            ]
            for state in ordered
        ],
        GROUP_OFFSETS.arrow.field("holders").type,
    )
    for field_ in GROUP_OFFSETS.arrow:
        if field_.name not in columns:
            values = [getattr(state, field_.name) for state in ordered]
            columns[field_.name] = pa.array(values, field_.type)
    return pa.table(columns).select(GROUP_OFFSETS.arrow.names).cast(GROUP_OFFSETS.arrow)


def states_from_arrow(table: pa.Table) -> States:
    """The states in rows of `group_offsets`."""
    states: States = {}
    records = states_of_columns(table)
    rows = _micros(table.drop_columns(_OF_RECORDS), "changed_at").to_pylist()
    for row, own in zip(rows, records, strict=True):
        holders = {h["shard"]: Word(h["epoch"], h["taken"]) for h in row["holders"] or ()}
        state = GroupState(**(row | {"holders": holders, "records": own}))
        states[state.key] = state
    return states


def _micros(table: pa.Table, *columns: str) -> pa.Table:
    """`table` with time columns as whole microseconds."""
    for column in columns:
        at = table.schema.get_field_index(column)
        table = table.set_column(at, column, table[column].cast(pa.int64()))
    return table
