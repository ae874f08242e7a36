"""A program that ends without closing its producer: its records are sent, or it says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.services.ingest_service import IngestService, inbox_rows

BLOCKING = """
import sys
from lakequeue import Producer
producer = Producer(sys.argv[1], linger_ms=2_000)
for i in range(3):
    producer.send("orders", i)
"""
ASYNC = """
import asyncio, sys
from lakequeue import AsyncProducer
async def main():
    producer = AsyncProducer(sys.argv[1], linger_ms=60_000)
    for i in range(3):
        await producer.send("orders", i)
asyncio.run(main())
"""
NOBODY = "http://127.0.0.1:9"
LOST = "3 records were not acknowledged when their producer came to its end"


def run(program: str, url: str) -> str:
    """Its standard error; it ends well."""
    command = [sys.executable, "-c", program, url]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


def test_what_was_sent_is_stored(tmp_path: Path) -> None:
    with IngestService(tmp_path / "root") as service:
        service.create("orders")
        assert run(BLOCKING, str(service.ready["url"])) == ""
    assert sorted(inbox_rows(tmp_path / "root")["value"].to_pylist()) == [b"0", b"1", b"2"]


def test_what_cannot_be_sent_is_said_and_a_wrong_address_at_the_first_attempt_and_once() -> None:
    said = run(BLOCKING, NOBODY)
    assert LOST in said
    assert said.count("does not answer") == 1
    assert "trying again" in said
    assert "`lakequeue up`" in said


def test_what_cannot_be_sent_is_said_from_asyncio() -> None:
    assert LOST in run(ASYNC, NOBODY)
