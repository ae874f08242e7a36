"""The proof, in SQL: the tables against what producers and consumers recorded themselves.

Nothing here trusts a counter of the queue: `log` is read as the Delta table that it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb

from examples.flights.departures import TOPIC
from queue_tables.querying.arrow_tables import dataset

_VIEWS = """
CREATE TABLE ordered AS
    SELECT partition, "offset", message_id, producer_id, sequence,
           decode(key) AS key, CAST(json_extract_string(decode(value), '$.n') AS INT) AS n
    FROM log WHERE topic = '{topic}';
CREATE TABLE acknowledged AS SELECT * FROM read_json('{folder}/producer-*.jsonl',
    format = 'newline_delimited', columns = {{n: 'INT', partition: 'INT'}});
CREATE TABLE received AS
    SELECT *, regexp_extract(filename, 'consumer-[^/]*$') AS consumer,
    FROM read_json('{folder}/consumer-*.jsonl', format = 'newline_delimited', filename = true,
    columns = {{seen: 'INT', partition: 'INT', "offset": 'BIGINT', epoch: 'BIGINT', n: 'INT'}});
"""

_PRODUCED = "SELECT count(DISTINCT n) FROM acknowledged"
_ORDERED = "SELECT count(*) FROM ordered"
_DELIVERED = """
SELECT count(*) FROM (SELECT DISTINCT partition, "offset", n FROM received)
JOIN ordered USING (partition, "offset", n)
"""
# Acknowledged and not in the log, or in the log and never delivered.
_LOST = """
SELECT (SELECT count(*) FROM (SELECT DISTINCT n FROM acknowledged) a ANTI JOIN ordered USING (n))
     + (SELECT count(*) FROM ordered ANTI JOIN received USING (partition, "offset", n))
"""
# One departure has two offsets; or the offsets of a partition are not 0, 1, 2, …
_DUPLICATED = """
SELECT (SELECT count(*) - count(DISTINCT n) FROM ordered)
     + (SELECT coalesce(sum(abs(top + 1 - rows)), 0) FROM (
            SELECT max("offset") AS top, count(DISTINCT "offset") AS rows
            FROM ordered GROUP BY partition))
"""
# One of these: departures of a plane are not in the order of the file; records of a producer in a
# partition are not in the order of sending; a consumer, under one lease, skipped an offset or went
# back.
_OUT_OF_ORDER = """
SELECT (SELECT count(*) FROM (
            SELECT n < lag(n) OVER (PARTITION BY key ORDER BY partition, "offset") AS bad
            FROM ordered WHERE key IS NOT NULL) WHERE bad)
     + (SELECT count(*) FROM (
            SELECT sequence < lag(sequence)
                   OVER (PARTITION BY producer_id, partition ORDER BY "offset") AS bad
            FROM ordered) WHERE bad)
     + (SELECT count(*) FROM (
            SELECT "offset" <> lag("offset")
                   OVER (PARTITION BY consumer, partition, epoch ORDER BY seen) + 1 AS bad
            FROM received) WHERE bad)
"""
_REDELIVERED = """
SELECT count(*) - count(DISTINCT (partition, "offset")) FROM received
"""
_KEYS_IN_ONE_PARTITION = """
SELECT count(*) FROM (SELECT key FROM ordered WHERE key IS NOT NULL
                      GROUP BY key HAVING count(DISTINCT partition) > 1)
"""


_QUESTIONS = {
    "produced": ("departures that a producer knows to be acknowledged", _PRODUCED),
    "ordered": ("records in the table log", _ORDERED),
    "delivered": ("records that a consumer got, and that are in log as it got them", _DELIVERED),
    "lost": ("acknowledged and not in log, or in log and never delivered", _LOST),
    "duplicated": ("a departure at two offsets, or a gap in the offsets", _DUPLICATED),
    "out_of_order": ("a plane, a producer or a consumer out of its order", _OUT_OF_ORDER),
    "redelivered": ("delivered again after the kill, which is allowed", _REDELIVERED),
    "split_keys": ("planes with records in two partitions", _KEYS_IN_ONE_PARTITION),
}
"""Field of the proof → what is asked, and the SQL that asks it."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The counts of the last line, and those that are printed beside it."""

    produced: int
    ordered: int
    delivered: int
    lost: int
    duplicated: int
    out_of_order: int
    redelivered: int
    split_keys: int

    @property
    def line(self) -> str:
        """The demo's last line."""
        return (
            f"demo: produced={self.produced} ordered={self.ordered} delivered={self.delivered} "
            f"lost={self.lost} duplicated={self.duplicated} out_of_order={self.out_of_order}"
        )

    def holds(self, records: int) -> bool:
        """Everything arrived, once, in order."""
        return (
            self.produced == self.ordered == self.delivered == records
            and not self.lost + self.duplicated + self.out_of_order + self.split_keys
        )


def prove(root: str, folder: Path) -> Proof:
    """Compute every figure from `log` under `root` and the recordings in `folder`."""
    with duckdb.connect() as sql:
        sql.register("log", dataset(root, "log"))
        sql.execute(_VIEWS.format(topic=TOPIC, folder=folder))

        def count(query: str) -> int:
            row = sql.execute(query).fetchone()
            return int(row[0]) if row and row[0] is not None else 0

        return Proof(**{name: count(query) for name, (_, query) in _QUESTIONS.items()})


def told(proof: Proof) -> list[str]:
    """Each question with its answer, and the SQL of the one that matters most. Pure."""
    lines = [
        f"  {getattr(proof, name):>9,}  {name:<13} {asked}"
        for name, (asked, _) in _QUESTIONS.items()
    ]
    at = list(_QUESTIONS).index("lost") + 1
    return [
        *lines[:at],
        *(f"             {one}" for one in _LOST.strip().splitlines()),
        *lines[at:],
    ]


def as_file(root: str, folder: Path) -> str:
    """All of the SQL, to read and to ask again. Pure."""
    parts = [
        "-- The proof of the demo, for DuckDB in Python. `log` is the Delta table:",
        "--   from queue_tables.querying.arrow_tables import dataset",
        f'--   sql.register("log", dataset("{root}", "log"))',
        _VIEWS.format(topic=TOPIC, folder=folder),
    ]
    for name, (asked, query) in _QUESTIONS.items():
        parts += [f"-- {name}: {asked}", query.strip() + ";", ""]
    return "\n".join(parts)
