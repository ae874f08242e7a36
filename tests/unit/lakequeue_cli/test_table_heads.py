"""What a support dump tells of a commit."""

from __future__ import annotations

import json

from lakequeue_cli.support.table_heads import commit_head


def test_statistics_of_files_and_schemas_are_left_out() -> None:
    lines = [
        {"commitInfo": {"operation": "WRITE"}},
        {"metaData": {"id": "i", "schemaString": "secret", "configuration": {"a": "b"}}},
        {"add": {"path": "f", "stats": '{"minValues":{"key":"secret"}}'}},
        {"add": {"path": "g"}},
    ]
    told = commit_head([json.dumps(line).encode() for line in lines] + [b"{torn"])
    assert told[0] == {"commitInfo": {"operation": "WRITE"}}
    assert told[1]["metaData"]["configuration"] == {"a": "b"}
    assert told[2] == {"add": 2, "lines that are no JSON": 1}
    assert "secret" not in json.dumps(told)
