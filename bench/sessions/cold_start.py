"""How long a queue takes to start on a long log, beside an empty one.

    python -m bench.sessions.cold_start [--records 10000000] [--rounds 2] [--json FILE]

The log is written first, by commits of 100,000 records of 100 B that were ordered just now, so all
of their ids are in the window in which copies are found. Then `lakequeue up` starts all processes
on it: until all are ready, until a record that is sent has come to a group that begins at the
latest, and until the first record has come to a group that begins at the earliest.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from lakequeue import Consumer, Producer
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions
from queue_tables.root import QueueRoot
from tests.support.data.log_builder import LogBuilder

TOPIC, PARTITIONS = "long", 8
A_COMMIT, VALUE = 100_000, b"x" * 100


def fill(root: QueueRoot, records: int) -> None:
    """A topic with so many records."""
    log = LogBuilder(root)
    topic = log.topic(TOPIC, PARTITIONS)
    for _ in range(records // A_COMMIT):
        share = [VALUE] * (A_COMMIT // PARTITIONS)
        log.append_many(topic, dict.fromkeys(range(PARTITIONS), share))


def measured(folder: Path, records: int) -> dict[str, Any]:
    """One start, in seconds."""
    root = str(folder / "queue")
    fill(QueueRoot.open(root), records)
    began = time.monotonic()
    with Cluster(ClusterOptions(root=root)) as cluster:
        cluster.wait_ready()
        ready_s = time.monotonic() - began
        latest = Consumer(TOPIC, group="latest", urls=cluster.consumer_urls, from_="latest")
        with latest, Producer(cluster.ingest_urls) as producer:
            began, came = time.monotonic(), False
            while not came:
                # The group begins when its first poll is there: an earlier record is not for it.
                producer.send(TOPIC, "new").result(60)
                came = bool(latest.poll(0.2))
            new_s = time.monotonic() - began
        began = time.monotonic()
        with Consumer(TOPIC, group="all", urls=cluster.consumer_urls, from_="earliest") as all_:
            while not all_.poll(1.0):
                pass
            old_s = time.monotonic() - began
    return {
        "records": records,
        "ready_s": round(ready_s, 2),
        "new_record_s": round(new_s, 2),
        "first_record_s": round(old_s, 2),
    }


def main() -> None:
    """Empty and long, in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    where = machine.describe()
    rows = []
    for _ in range(args.rounds):
        for records in (0, args.records):
            with tempfile.TemporaryDirectory() as folder:
                rows.append(measured(Path(folder), records))
            sys.stdout.write(f"{json.dumps(rows[-1])}\n")
            sys.stdout.flush()
    if args.json is not None:
        found = {"machine": where, "rows": rows}
        args.json.write_text(f"{json.dumps(found, indent=1)}\n")


if __name__ == "__main__":
    main()
