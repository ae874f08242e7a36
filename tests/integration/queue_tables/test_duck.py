"""A process that has asked DuckDB for a few rows ends as it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from queue_tables.root import QueueRoot
from tests.support.log_builder import LogBuilder

FILES = 120
"""So many that Arrow still reads ahead when the first rows are enough."""

ASK = """
import sys
import lakequeue.duck
print(lakequeue.duck.connect(sys.argv[1]).sql("SELECT * FROM records LIMIT 2").fetchall().__len__())
"""


def test_a_process_ends_well_while_files_are_read_ahead(tmp_path: Path) -> None:
    root = QueueRoot.open(str(tmp_path))
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
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr[-2_000:]
