"""A queue in PostgreSQL with SKIP LOCKED: the statements of pgmq 1.x, without its extension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg

from bench.peers.clients.interface import Acked, BatchSender, Place

SCHEMA = """
CREATE TABLE IF NOT EXISTS QUEUE_TABLE (
    msg_id BIGINT PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    read_ct INT DEFAULT 0 NOT NULL,
    enqueued_at TIMESTAMPTZ DEFAULT now() NOT NULL,
    vt TIMESTAMPTZ NOT NULL,
    message BYTEA
);
CREATE INDEX IF NOT EXISTS QUEUE_TABLE_vt_idx ON QUEUE_TABLE (vt ASC);
CREATE OR REPLACE FUNCTION QUEUE_TABLE_notify() RETURNS trigger AS
    $$ BEGIN PERFORM pg_notify('QUEUE_TABLE', ''); RETURN NULL; END $$ LANGUAGE plpgsql;
CREATE OR REPLACE TRIGGER QUEUE_TABLE_inserted AFTER INSERT ON QUEUE_TABLE
    FOR EACH STATEMENT EXECUTE FUNCTION QUEUE_TABLE_notify();
"""

SEND_BATCH = """
INSERT INTO QUEUE_TABLE (vt, message) SELECT clock_timestamp(), unnest(%b::bytea[])
"""

READ = """
WITH cte AS (
    SELECT msg_id FROM QUEUE_TABLE WHERE vt <= clock_timestamp()
    ORDER BY msg_id ASC LIMIT %s FOR UPDATE SKIP LOCKED
)
UPDATE QUEUE_TABLE m SET vt = clock_timestamp() + interval '60 seconds', read_ct = read_ct + 1
FROM cte WHERE m.msg_id = cte.msg_id RETURNING m.msg_id, m.message
"""

DELETE = "DELETE FROM QUEUE_TABLE WHERE msg_id = ANY(%s)"


def _of(statement: str, at: Place) -> Any:
    return statement.replace("QUEUE_TABLE", at["table"])


def _connect(at: Place) -> Any:
    return psycopg.connect(
        f"host=127.0.0.1 port={at['port']} user=bench dbname=postgres", autocommit=True
    )


class PostgresSender(BatchSender):
    """`pgmq.send_batch`: one transaction for all that waits."""

    def __init__(self, at: Place, acked: Acked) -> None:
        self._database = _connect(at)
        self._database.execute(_of(SCHEMA, at))
        self._send_batch = _of(SEND_BATCH, at)
        super().__init__(self._insert, acked, most=1_000)

    def _insert(self, batch: list[tuple[int, bytes]]) -> None:
        self._database.execute(self._send_batch, ([value for _, value in batch],))


class PostgresReceiver:
    """`pgmq.read`, woken by `NOTIFY`, and `pgmq.delete`."""

    def __init__(self, at: Place) -> None:
        self._database, self._listener = _connect(at), _connect(at)
        self._listener.execute(_of("LISTEN QUEUE_TABLE", at))
        self._read_some, self._delete = _of(READ, at), _of(DELETE, at)
        self._held: list[int] = []

    def _read(self, most: int) -> list[bytes]:
        rows = self._database.execute(self._read_some, (most,), binary=True).fetchall()
        self._held += [number for number, _ in rows]
        return [value for _, value in rows]

    def receive(self, seconds: float, most: int) -> Sequence[bytes]:
        """What is there; otherwise what is there after the next insert."""
        if values := self._read(most):
            return values
        for _ in self._listener.notifies(timeout=seconds, stop_after=1):
            pass
        return self._read(most)

    def settle(self) -> None:
        """Delete."""
        if self._held:
            self._database.execute(self._delete, (self._held,))
            self._held = []

    def close(self) -> None:
        """Close the connections."""
        self._database.close()
        self._listener.close()
