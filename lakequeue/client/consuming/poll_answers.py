"""What a service answers to a poll, in JSON or in columns, as records of the wire. Pure.

In columns, bytes come as they are: `key` and `value` of a record then hold `bytes`, where JSON has
`key_base64` and `value_base64`.
"""

from __future__ import annotations

from typing import Any, Final

from lakequeue.calling.effects import Reply
from lakequeue.client.fetched import Batches, InColumns
from lakequeue.errors import Broken
from lakequeue.wire import ARROW_STREAM, BESIDE, JSON, loads_exactly
from lakequeue.wire.arrow_reader import read_stream

ACCEPT: Final = f"{ARROW_STREAM}, {JSON}"


def read_poll(reply: Reply) -> dict[str, Any]:
    """The answer, as JSON has it; but `records` may be `Batches`. Raises `Broken`."""
    if not reply.headers.get("content-type", "").startswith(ARROW_STREAM):
        # Not through pydantic: there are thousands of records in it.
        plain: dict[str, Any] = reply.json()
        return plain
    try:
        stream = read_stream(reply.body)
        body: dict[str, Any] = loads_exactly(stream.metadata[BESIDE])
        body["records"] = Batches([InColumns(batch) for batch in stream.batches])
    except (ValueError, KeyError) as e:
        raise Broken(f"the answer to a poll cannot be read: {e}") from e
    return body
