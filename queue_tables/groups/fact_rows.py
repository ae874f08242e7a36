"""Facts and states as rows: of journal shards, and of `group_offsets`."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from lakequeue.records import Epoch, Partition, ShardName, Stamp, TopicId
from lakequeue.wire.limits import MAX_WHOLE
from queue_tables.groups.fact_checks import SetAside, set_aside_of, sound_facts
from queue_tables.groups.facts import (
    Fact,
    GroupState,
    Kind,
    States,
    Word,
    committed_of,
    join,
    state_of,
)
from queue_tables.groups.record_rows import record_news, states_of_columns, states_to_columns
from queue_tables.groups.record_states import RECORD_KINDS
from queue_tables.schema.odd_bytes import texts_of
from queue_tables.schema.schemas import GROUP_OFFSETS, JOURNAL

_FACTS = pa.schema([f for f in JOURNAL.arrow if f.name not in {"hour", "stamp", "row"}])
_FACT_COLUMNS = _FACTS.names
_VALUES = attrgetter(*_FACT_COLUMNS)
_TEXTS = ("topic", "member", "reason", "dead_letter", "options")
_STATE_TEXTS = ("topic", "mode", "owner_shard", "member", "options")
_OF_RECORDS = ["seen", "open", "dead", "expired", "ends_known_from"]

log = structlog.get_logger()


def to_arrow(facts: Iterable[Fact]) -> pa.Table:
    """The rows of `facts` for a journal shard: without hour, stamp and row, which a shard adds."""
    many = list(facts)
    rows = zip(*map(_VALUES, many), strict=True) if many else [()] * len(_FACTS)
    columns = [pa.array(values, of.type) for values, of in zip(rows, _FACTS, strict=True)]
    return pa.table(columns, schema=_FACTS)


def from_arrow(table: pa.Table, shard: ShardName) -> list[Fact]:
    """The facts in rows that were read from `shard`; kinds of newer releases are skipped."""
    rows = _micros(table.select(_FACT_COLUMNS), "at", "until", "first_at", "expires_at").to_pylist()
    known = set(Kind)
    return [
        Fact(
            **(
                row
                | {"kind": Kind(row["kind"]), "shard": shard}
                | {name: row[name] or "" for name in _TEXTS}
                | {"at": row["at"] or 0}
            )
        )
        for row in rows
        if row["kind"] in known
    ]


def under_stamp(rows: pa.Table, stamp: Stamp | None) -> pa.Table:
    """Rows of a journal shard with the stamp of their commit; None: they have none that counts."""
    at = rows.schema.get_field_index("stamp")
    stamps = pa.repeat(pa.scalar(stamp, pa.int64()), rows.num_rows)
    return rows.set_column(at, rows.schema.field(at), stamps)


def news_from_arrow(
    table: pa.Table, shard: ShardName, aside: list[SetAside] | None = None
) -> list[GroupState]:
    """What rows that were read from `shard` say, for `fold_news`: many facts at once.

    Rows that are no facts say nothing, and are added to `aside`.
    """
    sound, odd = sound_facts(table, shard)
    aside = [] if aside is None else aside
    aside += odd
    return _what_can_be_read(sound, shard, aside)


def _what_can_be_read(table: pa.Table, shard: ShardName, aside: list[SetAside]) -> list[GroupState]:
    """All news; if that fails for a reason that no rule knows, of each half by itself."""
    try:
        news = _news(table, shard)
        for one in news:
            join(one, one)
    except Exception as error:  # noqa: BLE001 -- the guilty row is set aside, with this reason
        if table.num_rows <= 1:
            reason = f"{type(error).__name__}: {error}"[:500]
            aside += [set_aside_of(table, at, shard, reason) for at in range(table.num_rows)]
            return []
        half = table.num_rows // 2
        return [
            *_what_can_be_read(table.slice(0, half), shard, aside),
            *_what_can_be_read(table.slice(half), shard, aside),
        ]
    return news


def _news(table: pa.Table, shard: ShardName) -> list[GroupState]:
    of_records = pc.is_in(table["kind"], pa.array(sorted(RECORD_KINDS)))
    news = [state_of(fact) for fact in from_arrow(table.filter(pc.invert(of_records)), shard)]
    news += [
        GroupState(
            one.group,
            TopicId(one.topic_id),
            Partition(one.partition),
            topic=one.topic or "",
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
    """The states in rows of `group_offsets`. A row that is no state is left out, and logged."""
    try:
        return _states(table)
    except Exception:  # noqa: BLE001 -- one row must not hide the groups beside it
        states: States = {}
        for at in range(table.num_rows):
            row = table.slice(at, 1)
            try:
                states |= _states(row)
            except Exception as error:  # noqa: BLE001 -- it is said
                group, topic = (texts_of(row[name])[0] for name in ("group", "topic"))
                log.warning("group_state.set_aside", group=group, topic=topic, error=repr(error))
        return states


def _states(table: pa.Table) -> States:
    states: States = {}
    records = states_of_columns(table)
    rows = _micros(table.drop_columns(_OF_RECORDS), "changed_at").to_pylist()
    for row, own in zip(rows, records, strict=True):
        holders = {h["shard"]: Word(h["epoch"], h["taken"]) for h in row["holders"] or ()}
        nothing = {name: row[name] or "" for name in _STATE_TEXTS}
        nothing["changed_at"] = row["changed_at"] or 0
        state = GroupState(**(row | nothing | {"holders": holders, "records": own}))
        _check(state)
        states[state.key] = state
    return states


def _check(state: GroupState) -> None:
    """Raise `ValueError` unless a fold can go on from it."""
    numbers = (state.partition, state.generation, state.epoch, state.committed_offset or 0)
    if not all(type(n) is int and 0 <= n <= MAX_WHOLE for n in numbers):
        raise ValueError(f"numbers of a state out of range: {numbers}")
    if not state.group or not state.topic_id:
        raise ValueError("a state without a group or topic")
    if not _is_object(state.options):
        raise ValueError(f"options that are no JSON object: {state.options[:100]}")
    join(state, state)


def _is_object(options: str) -> bool:
    return isinstance(orjson.loads(options or "{}"), dict)


def _micros(table: pa.Table, *columns: str) -> pa.Table:
    """`table` with time columns as whole microseconds."""
    for column in columns:
        at = table.schema.get_field_index(column)
        table = table.set_column(at, column, table[column].cast(pa.int64()))
    return table
