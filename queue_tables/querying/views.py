"""SQL views over the tables of a queue, written once for Spark and for DuckDB. Pure.

What people look for comes first: place, key, value. What the queue itself needs comes last.

Names in double quotes become what the dialect quotes with. `{log}`, `{topics}`, … stand for the
tables, `{text:value}` and the like for what the dialects say differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lakequeue.wire.calls.receipts import DeadLetterHeader as Dead
from queue_tables.schema.reasons import Fate, with_fate


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs. Each takes the SQL of an expression and returns SQL."""

    quote: str
    text: Callable[[str], str]
    """UTF-8 bytes as text; null if they are none."""
    json: Callable[[str], str]
    """JSON text as what the engine looks into; null if it is none."""
    header: Callable[[str], str]
    """The value of the header of that name, as text; null if there is none."""
    count: Callable[[str], str]
    """Elements of a list; 0 for null."""
    offsets: Callable[[str], str]
    """`offset` of each element of a list of records."""
    contains: Callable[[str, str], str]
    each: Callable[[str], str]
    """One row an element."""
    within: Callable[[str, str], str]
    """Whether a list of ranges has an offset."""
    count_from: Callable[[str, str], str]
    """How many offsets of a list of ranges are not below an offset."""


SPARK = Dialect(
    quote="`",
    # Of bytes that are no UTF-8 `decode` makes an error, which ends the whole query.
    text=lambda e: f"try_validate_utf8(CAST({e} AS STRING))",
    json=lambda e: f"try_parse_json(try_validate_utf8(CAST({e} AS STRING)))",
    header=lambda n: (
        f"try_validate_utf8(CAST(get(filter(headers, h -> h.key = '{n}'), 0).value AS STRING))"
    ),
    count=lambda e: f"greatest(size({e}), 0)",
    offsets=lambda e: f"{e}.offset",
    contains=lambda e, x: f"array_contains({e}, {x})",
    each=lambda e: f"explode({e})",
    count_from=lambda e, x: (
        f"coalesce(aggregate({e}, 0L, (n, span) -> "
        f"n + greatest(span.to_offset - greatest(span.from_offset, {x}), 0)), 0)"
    ),
    within=lambda e, x: f"exists({e}, span -> {x} >= span.from_offset AND {x} < span.to_offset)",
)
DUCKDB = Dialect(
    quote='"',
    text=lambda e: f"TRY(decode({e}))",
    json=lambda e: f"TRY_CAST(TRY(decode({e})) AS JSON)",
    header=lambda n: f"TRY(decode(list_filter(headers, lambda h: h.key = '{n}')[1].value))",
    count=lambda e: f"coalesce(len({e}), 0)",
    offsets=lambda e: f'list_transform({e}, lambda o: o."offset")',
    contains=lambda e, x: f"list_contains({e}, {x})",
    each=lambda e: f"unnest({e})",
    count_from=lambda e, x: (
        f"CAST(coalesce(list_sum(list_transform({e}, lambda span: "
        f"greatest(span.to_offset - greatest(span.from_offset, {x}), 0))), 0) AS BIGINT)"
    ),
    within=lambda e, x: (
        f"len(list_filter({e}, lambda span: {x} >= span.from_offset AND {x} < span.to_offset)) > 0"
    ),
)

_TOPICS = """
SELECT topic, partitions, partitioner, retention_ms, ttl_ms, dedup_window_ms,
       max_record_bytes, on_expired, coalesce(dead_letter_topic,
       CASE WHEN length(topic) <= 245 THEN concat(topic, '.dlq')
       ELSE concat(substr(topic, 1, 236), '-', substr(md5(topic), 1, 8), '.dlq') END)
       AS dead_letter_topic, max_attempts, changed_at, topic_id, version
FROM (SELECT *, row_number() OVER (PARTITION BY topic ORDER BY version DESC) AS newest
      FROM {topics}) WHERE newest = 1 AND NOT deleted"""

_RECORDS = """
SELECT l.topic, l."partition", l."offset", l.key, l.value, l.headers, l."timestamp",
       CASE WHEN l.key_format > 0 THEN {text:l.key} END AS key_text,
       CASE WHEN l.value_format > 0 THEN {text:l.value} END AS value_text,
       CASE WHEN l.value_format = 2 THEN {json:l.value} END AS value_json,
       l.message_id, l.ordered_at, l.deliver_at, l.expires_at,
       l.topic_id, l.key_format, l.value_format, l.hour
FROM {log} l JOIN {view:topics} t ON l.topic_id = t.topic_id"""

_LAG = """
SELECT g."group", g.topic, g."partition", g.mode, g.committed_offset,
       greatest(coalesce(e.end_offset, 0), coalesce(g.committed_offset, 0)) AS end_offset,
       greatest(coalesce(e.end_offset, 0) - coalesce(g.committed_offset, e.first_offset, 0)
                - {seen_from:coalesce(g.committed_offset, e.first_offset, 0)}, 0)
       + {count:g."open"} AS lag,
       g.member, g.epoch, g.changed_at
FROM {group_offsets} g JOIN {view:topics} t ON g.topic_id = t.topic_id
LEFT JOIN (SELECT topic_id, "partition", min("offset") AS first_offset,
                  max("offset") + 1 AS end_offset
           FROM {log} GROUP BY topic_id, "partition") e
ON e.topic_id = g.topic_id AND e."partition" = g."partition"
WHERE g.mode <> 'deleted'"""

_GROUP_BACKLOG = """
SELECT g."group", r.topic, r."partition", r."offset", r.key, r.value, r.headers, r."timestamp",
       r.key_text, r.value_text, r.message_id, r.ordered_at, r.deliver_at, r.expires_at,
       r.value_json
FROM {view:records} r JOIN {group_offsets} g
ON g.topic_id = r.topic_id AND g."partition" = r."partition"
WHERE g.mode <> 'deleted' AND CASE WHEN g.mode = 'queue'
      THEN {open_has:r."offset"} OR NOT ({seen_has:r."offset"})
      ELSE r."offset" >= coalesce(g.committed_offset, 0) END"""

_IN_FLIGHT = """
SELECT "group", topic, "partition", record."offset" AS "offset", record.attempt AS attempt,
       record.member AS member, record."until" AS deadline, record.first_at AS first_at
FROM (SELECT "group", topic, "partition", {each:"open"} AS record
      FROM {group_offsets} WHERE mode = 'queue') WHERE record.stage = 0"""

_DEAD_LETTERS = f"""
SELECT topic AS dead_letter_topic, "partition", "offset", key, value, key_text, value_text,
       {{header:{Dead.TOPIC}}} AS topic,
       CAST({{header:{Dead.PARTITION}}} AS INT) AS from_partition,
       CAST({{header:{Dead.OFFSET}}} AS BIGINT) AS from_offset,
       {{header:{Dead.GROUP}}} AS "group", {{header:{Dead.REASON}}} AS reason,
       {{header:{Dead.NACK_REASON}}} AS nack_reason, {{header:{Dead.FAULT}}} AS fault,
       CAST({{header:{Dead.ATTEMPTS}}} AS INT) AS attempts, ordered_at, redriven, value_json
FROM (SELECT r.*, coalesce(r."offset" < g.committed_offset, false) AS redriven
      FROM {{view:records}} r LEFT JOIN {{group_offsets}} g
      ON g."group" = concat('redrive.', r.topic) AND g.topic_id = r.topic_id
         AND g."partition" = r."partition" AND g.mode <> 'deleted')
WHERE {{header:{Dead.TOPIC}}} IS NOT NULL"""

_RECORD_STATUS = """
SELECT "group", topic, "partition", "offset", status,
       CASE WHEN status = 'dead' THEN dead.attempts WHEN mode = 'queue' THEN
            coalesce("record".attempt, CASE WHEN status = 'pending' THEN 0 END) END AS attempt,
       CASE WHEN status = 'in_flight' THEN "record".member END AS member,
       CASE WHEN status IN ('in_flight', 'parked') THEN "record"."until" END AS "until",
       nullif(CASE WHEN status = 'dead' THEN dead.reason
                   WHEN status = 'dying' THEN split_part("record".reason, ': ', 1)
                   END, '') AS reason,
       CASE WHEN status = 'dead' THEN nullif(dead.dead_letter, '') END AS dead_letter,
       message_id, ordered_at
FROM (SELECT g."group", l.topic, l."partition", l."offset", g.mode, o."record", d.dead,
             l.message_id, l.ordered_at,
             CASE WHEN g.mode <> 'queue' THEN
                       CASE WHEN l."offset" < g.committed_offset THEN 'acked' ELSE 'pending' END
                  WHEN o."record".stage = 2 THEN 'dying'
                  WHEN o."record"."until" <= now() THEN 'pending'
                  WHEN o."record".stage = 1 THEN 'parked'
                  WHEN o."record".stage = 0 THEN 'in_flight'
                  WHEN d.dead."offset" IS NOT NULL THEN 'dead'
                  WHEN NOT ({seen_has:l."offset"}) THEN 'pending'
                  WHEN {expired_has:l."offset"} THEN 'expired'
                  WHEN l."offset" >= g.ends_known_from THEN 'acked'
                  ELSE 'settled' END AS status
      FROM {log} l JOIN {view:topics} t ON l.topic_id = t.topic_id
      JOIN {group_offsets} g ON g.topic_id = l.topic_id AND g."partition" = l."partition"
      LEFT JOIN (SELECT "group", topic_id, "partition", {each:"open"} AS "record"
                 FROM {group_offsets}) o
      ON o."group" = g."group" AND o.topic_id = l.topic_id AND o."partition" = l."partition"
         AND o."record"."offset" = l."offset"
      LEFT JOIN (SELECT "group", topic_id, "partition", {each:dead} AS dead
                 FROM {group_offsets}) d
      ON d."group" = g."group" AND d.topic_id = l.topic_id AND d."partition" = l."partition"
         AND d.dead."offset" = l."offset"
      WHERE g.mode <> 'deleted')"""

_WHO_ACKED_WHAT = """
SELECT "group", topic, "partition", from_offset, to_offset, member, attempt, "at" AS acked_at,
       mode, generation, topic_id
FROM (SELECT *, "offset" AS from_offset, coalesce(end_offset, "offset" + 1) AS to_offset
      FROM {journal} WHERE kind = 'acked'
      UNION ALL
      SELECT *, lag("offset") OVER (PARTITION BY "group", topic_id, "partition", generation
                                    ORDER BY "offset", "at") AS from_offset,
             "offset" AS to_offset
      FROM {journal} WHERE kind IN ('committed', 'seek') AND mode <> 'queue')
WHERE kind <> 'seek' AND (from_offset IS NULL OR from_offset < to_offset)"""

_MESSAGE_STATUS = """
SELECT topic, "partition", "offset", 'ordered' AS status, message_id, producer_id,
       ordered_at AS decided_at, shard, stamp, "row"
FROM {log}
UNION ALL
SELECT topic, coalesce(original_partition, "partition") AS "partition",
       original_offset AS "offset", reason AS status, message_id, producer_id,
       rejected_at AS decided_at, shard, stamp, "row"
FROM {rejects} WHERE reason <> 'no_record'"""

_PUT_ASIDE = """
SELECT topic, "partition", reason, detail, key, value,
       CASE WHEN key_format > 0 THEN {text:key} END AS key_text,
       CASE WHEN value_format > 0 THEN {text:value} END AS value_text,
       headers, "timestamp", message_id, producer_id, shard, stamp, "row", rejected_at
FROM {rejects} WHERE reason IN ({reasons:put_aside})"""

_METRICS = """
SELECT hour, topic, "partition", "group", mode, records_in, bytes_in, records_out,
       bytes_out, CAST(records_in AS DOUBLE) / 3600 AS in_per_s,
       CAST(records_out AS DOUBLE) / 3600 AS out_per_s, lag, end_offset, consumed, measured_at,
       topic_id
FROM {metrics}"""

VIEWS = {
    "topics": _TOPICS,
    "records": _RECORDS,
    "lag": _LAG,
    "group_backlog": _GROUP_BACKLOG,
    "in_flight_records": _IN_FLIGHT,
    "dead_letters": _DEAD_LETTERS,
    "record_status": _RECORD_STATUS,
    "who_acked_what": _WHO_ACKED_WHAT,
    "message_status": _MESSAGE_STATUS,
    "put_aside": _PUT_ASIDE,
    "metrics": _METRICS,
}
"""Name → template, each after those it stands on."""
FUNCTIONS = {"backlog": "group_backlog", "in_flight": "in_flight_records"}
"""Functions of a group's name, over a view that has the column `group`."""
TABLES = ("topics", "log", "group_offsets", "rejects", "metrics")
"""The tables they stand on; `journal` stands for all of its shards, which are tables each."""

_PLACE = re.compile(r"\{(\w+)(?::([^{}]+))?\}")


def render(
    template: str, dialect: Dialect, table: Callable[[str], str], view: Callable[[str], str]
) -> str:
    """The SQL of a view: `table` and `view` say how a table and another view are called."""
    quote = dialect.quote
    expressions: dict[str, Callable[[str], str]] = {
        "text": dialect.text,
        "json": dialect.json,
        "header": dialect.header,
        "count": dialect.count,
        "each": dialect.each,
        "open_has": lambda x: dialect.contains(dialect.offsets(f"g.{quote}open{quote}"), x),
        "seen_has": lambda x: dialect.within("g.seen", x),
        "seen_from": lambda x: dialect.count_from("g.seen", x),
        "expired_has": lambda x: dialect.within("g.expired", x),
        "view": view,
        "reasons": lambda fate: ", ".join(f"'{r}'" for r in with_fate(Fate[fate.upper()])),
    }

    def fill(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        return table(name) if argument is None else expressions[name](argument)

    return _PLACE.sub(fill, template.replace('"', dialect.quote)).strip()
