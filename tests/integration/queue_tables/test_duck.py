"""A process that has asked DuckDB for a few rows ends as it should."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import lakequeue.duck
from queue_tables.querying.arrow_files import Gate
from queue_tables.root import QueueRoot
from queue_tables.schema.schemas import LOG
from tests.support.data.log_builder import LogBuilder
from tests.support.services.s3 import S3Server

FILES = 120
"""So many that Arrow still reads ahead when the first rows are enough."""

ASK = """
import sys
import lakequeue.duck
print(lakequeue.duck.connect(sys.argv[1]).sql("SELECT * FROM records LIMIT 2").fetchall().__len__())
"""


def ask(root: QueueRoot, environ: dict[str, str]) -> None:
    log = LogBuilder(root)
    topic = log.topic("orders", partitions=2)
    for n in range(FILES):
        log.append(topic, [f"v{n}"] * 50, partition=n % 2)
    done = subprocess.run(
        [sys.executable, "-c", ASK, root.uri],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | environ,
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr[-2_000:]


def test_a_process_ends_well_while_files_are_read_ahead(tmp_path: Path) -> None:
    ask(QueueRoot.open(str(tmp_path)), {})


def test_a_process_ends_well_while_files_of_an_object_store_are_read_ahead() -> None:
    with S3Server() as s3:
        ask(QueueRoot.over(s3.store("ends")), s3.environ)


def test_the_columns_of_the_log_come_with_the_readable_ones_first(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
    log = LogBuilder(root)
    log.append(log.topic("orders", partitions=1), ["a"])
    connection = lakequeue.duck.connect(root.uri)
    shown = [row[0] for row in connection.sql("DESCRIBE lakequeue_log").fetchall()]
    assert shown == [field.name for field in LOG.arrow]
    assert shown[:5] == ["topic", "partition", "offset", "key", "value"]


def test_a_root_that_is_not_given_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = QueueRoot.open(str(tmp_path))
    log = LogBuilder(root)
    topic = log.topic("orders", partitions=1)
    log.append(topic, ["a"])
    monkeypatch.setenv("LAKEQUEUE_ROOT", root.uri)
    connection = lakequeue.duck.connect()
    log.append(topic, ["b"])
    count = "SELECT count(*) FROM records"
    assert connection.sql(count).fetchall() == [(1,)]
    lakequeue.duck.refresh(connection)
    assert connection.sql(count).fetchall() == [(2,)]


def test_the_end_waits_for_a_read_under_way_and_refuses_the_next() -> None:
    gate = Gate()
    ended = threading.Event()

    def end() -> None:
        gate.close()
        ended.set()

    with gate.passed():
        ending = threading.Thread(target=end)
        ending.start()
        assert not ended.wait(0.2)
    ending.join(60)
    assert ended.is_set()
    with pytest.raises(OSError, match="the process ends"), gate.passed():
        pass
