"""Other engines at a table of the queue: what a user with SQL or delta-rs does to it."""

from __future__ import annotations

import orjson

from queue_tables.delta_log import commit_path
from queue_tables.root import QueueRoot
from queue_tables.table import TableLog

_OPEN_TO_ALL = {"minReaderVersion": 1, "minWriterVersion": 2}


def unguarded(root: QueueRoot, table: str) -> str:
    """Let every engine write `table` (relative to the root); its path, for those engines.

    A commit with nothing but the protocol that the queue's tables had before they guarded
    themselves: what a person does who wants to write there whatever it costs.
    """
    newest = TableLog(root.store, table, keep_files=False).open().version
    said = [
        {"commitInfo": {"timestamp": 0, "operation": "UPGRADE PROTOCOL", "engineInfo": "a person"}},
        {"protocol": _OPEN_TO_ALL},
    ]
    data = b"".join(orjson.dumps(one, option=orjson.OPT_APPEND_NEWLINE) for one in said)
    root.store.put_new(commit_path(table, newest + 1), data)
    return f"{root.uri}/{table}"
