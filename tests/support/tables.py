"""The truth of a queue, read from its tables by delta-rs: what a history ends with."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as ds
from deltalake import DeltaTable

from tests.support.history import Event


def final_read(root: Path | str, topic: str) -> list[Event]:
    """A `read` event for every record of `topic` in `log`, values being message ids."""
    log = DeltaTable(str(Path(root) / "log")).to_pyarrow_dataset()
    rows = log.to_table(
        columns=["partition", "offset", "message_id", "topic"], filter=ds.field("topic") == topic
    )
    return [
        Event(
            "read",
            "ok",
            topic=topic,
            part=row["partition"],
            offset=row["offset"],
            value=row["message_id"],
        )
        for row in rows.to_pylist()
    ]
