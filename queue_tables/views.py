"""SQL views over the tables of a queue, written once for Spark and for DuckDB. Pure.

Names in double quotes become what the dialect quotes with. `{log}`, `{topics}`, … stand for the
tables, `{text:value}` and the like for what the dialects say differently.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lakequeue.wire import DeadLetterHeader as Dead


@dataclass(frozen=True, slots=True)
class Dialect:
    """What differs. Each takes the SQL of an expression and returns SQL."""

    quote: str
    text: Callable[[str], str]
    """UTF-8 bytes as text."""
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


SPARK = Dialect(
    quote="`",
    text=lambda e: f"decode({e}, 'UTF-8')",
    json=lambda e: f"try_parse_json(decode({e}, 'UTF-8'))",
    header=lambda n: f"decode(get(filter(headers, h -> h.key = '{n}'), 0).value, 'UTF-8')",
    count=lambda e: f"greatest(size({e}), 0)",
    offsets=lambda e: f"{e}.offset",
    contains=lambda e, x: f"array_contains({e}, {x})",
    each=lambda e: f"explode({e})",
)
DUCKDB = Dialect(
    quote='"',
    text=lambda e: f"decode({e})",
    json=lambda e: f"TRY_CAST(decode({e}) AS JSON)",
    header=lambda n: f"decode(list_filter(headers, lambda h: h.key = '{n}')[1].value)",
    count=lambda e: f"coalesce(len({e}), 0)",
    offsets=lambda e: f'list_transform({e}, lambda o: o."offset")',
    contains=lambda e, x: f"list_contains({e}, {x})",
    each=lambda e: f"unnest({e})",
)

_TOPICS = """
SELECT topic, topic_id, version, partitions, partitioner, retention_ms, ttl_ms, dedup_window_ms,
       max_record_bytes, on_expired, coalesce(dead_letter_topic, concat(topic, '.dlq'))
       AS dead_letter_topic, max_attempts, changed_at
FROM (SELECT *, row_number() OVER (PARTITION BY topic ORDER BY version DESC) AS newest
      FROM {topics}) WHERE newest = 1 AND NOT deleted"""

_RECORDS = """
SELECT l.topic, l.topic_id, l."partition", l."offset", l.key, l.value,
       CASE WHEN l.key_format > 0 THEN {text:l.key} END AS key_text,
       CASE WHEN l.value_format > 0 THEN {text:l.value} END AS value_text,
       CASE WHEN l.value_format = 2 THEN {json:l.value} END AS value_json,
       l.key_format, l.value_format, l.headers, l."timestamp", l.message_id, l.deliver_at,
       l.expires_at, l.ordered_at, l.hour
FROM {log} l JOIN {view:topics} t ON l.topic_id = t.topic_id"""

_LAG = """
SELECT g."group", g.topic, g."partition", g.mode, g.committed_offset,
       greatest(coalesce(e.end_offset, 0), coalesce(g.committed_offset, 0)) AS end_offset,
       greatest(coalesce(e.end_offset, 0) - coalesce(g.committed_offset, e.first_offset, 0), 0)
       + {count:g."open"} AS lag,
       g.member, g.epoch, g.changed_at
FROM {group_offsets} g JOIN {view:topics} t ON g.topic_id = t.topic_id
LEFT JOIN (SELECT topic_id, "partition", min("offset") AS first_offset,
                  max("offset") + 1 AS end_offset
           FROM {log} GROUP BY topic_id, "partition") e
ON e.topic_id = g.topic_id AND e."partition" = g."partition"
WHERE g.mode <> 'deleted'"""

_GROUP_BACKLOG = """
SELECT g."group", r.topic, r."partition", r."offset", r.key, r.value, r.key_text, r.value_text,
       r.headers, r."timestamp", r.message_id, r.deliver_at, r.expires_at, r.ordered_at
FROM {view:records} r JOIN {group_offsets} g
ON g.topic_id = r.topic_id AND g."partition" = r."partition"
WHERE g.mode <> 'deleted' AND (r."offset" >= coalesce(g.committed_offset, 0)
      OR {open_has:r."offset"})"""

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
       CAST({{header:{Dead.ATTEMPTS}}} AS INT) AS attempts, ordered_at
FROM {{view:records}} WHERE {{header:{Dead.TOPIC}}} IS NOT NULL"""

_RECORD_STATUS = """
SELECT topic, message_id, producer_id, shard, stamp, "row", 'ordered' AS status, "partition",
       "offset", ordered_at AS decided_at
FROM {log}
UNION ALL
SELECT topic, message_id, producer_id, shard, stamp, "row", reason AS status,
       coalesce(original_partition, "partition") AS "partition", original_offset AS "offset",
       rejected_at AS decided_at
FROM {rejects} WHERE reason <> 'no_record'"""

VIEWS = {
    "topics": _TOPICS,
    "records": _RECORDS,
    "lag": _LAG,
    "group_backlog": _GROUP_BACKLOG,
    "in_flight_records": _IN_FLIGHT,
    "dead_letters": _DEAD_LETTERS,
    "record_status": _RECORD_STATUS,
}
"""Name → template, each after those it stands on."""
FUNCTIONS = {"backlog": "group_backlog", "in_flight": "in_flight_records"}
"""Functions of a group's name, over a view that has the column `group`."""
TABLES = ("topics", "log", "group_offsets", "rejects")
"""The tables they stand on; shards of inbox and journal are tables of their own each."""

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
        "view": view,
    }

    def fill(match: re.Match[str]) -> str:
        name, argument = match[1], match[2]
        return table(name) if argument is None else expressions[name](argument)

    return _PLACE.sub(fill, template.replace('"', dialect.quote)).strip()
