"""Lines that `lakequeue produce` cannot send: the error names them."""

from __future__ import annotations

import io
import sys

import pytest

from lakequeue.testing import MemoryQueue
from lakequeue_cli.app import main

INGEST = "http://ingest.test"


@pytest.mark.parametrize(
    ("options", "code", "said", "sent"),
    [
        ([], 8, "error: line 2 is not UTF-8\n", ["good"]),
        (["-t", "json", "-k", "\udcff"], 8, "error: line 1 is not UTF-8\n", []),
        (["-K", ""], 2, "error: -K is empty\n", []),
    ],
)
def test_what_cannot_be_sent_is_an_error_of_one_sentence(
    options: list[str],
    code: int,
    said: str,
    sent: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MemoryQueue([INGEST]) as queue:
        queue.create_topic("orders", partitions=1)
        lines = io.TextIOWrapper(io.BytesIO(b"good\n\xff\nnever\n"), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", lines)
        monkeypatch.setattr(
            sys, "argv", ["lakequeue", "produce", "orders", *options, "--url", INGEST]
        )
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == code
        assert capsys.readouterr().err.startswith(said)
        assert [record.value for record in queue.records("orders")] == sent
