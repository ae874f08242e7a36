"""Where a record went, as `lakequeue produce` prints it."""

from __future__ import annotations

import json

import pytest

from lakequeue.client.producing.outgoing import RecordMetadata
from lakequeue_cli.commands.produce import _print


def test_a_dead_letter_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    dead = RecordMetadata("orders", 3, "m1", 7, 5, False, "orders.dlq")
    _print(dead, as_json=False, quiet=False)
    assert capsys.readouterr().out == "partition=3 id=m1 offset=5 dead-letter=orders.dlq\n"
    _print(dead, as_json=True, quiet=False)
    assert json.loads(capsys.readouterr().out)["dead_letter_topic"] == "orders.dlq"
    _print(RecordMetadata("orders", 3, "m1", 7), as_json=True, quiet=False)
    assert "dead_letter_topic" not in json.loads(capsys.readouterr().out)
