"""The columns of `format("lakequeue")`, which are those of `format("kafka")`."""

from __future__ import annotations

SCHEMA = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    # Not TIMESTAMP, of which a session can make one without a zone.
    "timestamp": "TIMESTAMP_LTZ",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
"""That of `format("kafka")`, column for column. `headers` only if they are asked for."""
