"""`make bench`: everything the README quotes, from one run, into bench/results.{json,md}.

    python -m bench [--rounds 3] [--seconds 60] [--drain-records 1000000] [--out DIR]

Measures, one after the other, with nothing else of ours running: time to ready, latency at
1,000 records/s of 1 kB over 8 partitions, CPU and memory when idle, ordering throughput with
1,000,000 ids in the window, drain throughput, and queue groups. Then all of it again: what the
table shows is the median of the rounds, and their ends.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import drain, latency, machine, queue_groups
from bench.figures import Figure, Line, Round, table
from bench.readme import put
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions

HERE = Path(__file__).parent
RATE = 1_000
PARTITIONS = 8
WARM_UP_S = 30.0
IDLE_S = 30.0


def _latency(of: str, limits: dict[str, float]) -> tuple[Figure, ...]:
    return tuple(
        Figure(
            lambda found, part=part: found["latency"][of][f"{part}_ms"],  # type: ignore[misc]
            "ms",
            part,
            "time",
            at_most=limits.get(part),
        )
        for part in ("p50", "p99")
    )


LINES = (
    Line("send → acknowledged (durable)", _latency("acknowledged", {"p99": 80})),
    Line("send → received by a consumer", _latency("end_to_end", {"p50": 400, "p99": 800})),
    Line(
        "ordering, 1,000,000 ids in the window",
        (
            Figure(lambda r: r["ordering"]["mb_per_s"], "MB/s", kind="rate", at_least=100),
            Figure(lambda r: r["ordering"]["records_per_s"], "records/s", kind="rate"),
        ),
    ),
    Line(
        "draining a full log to one consumer",
        (
            Figure(lambda r: r["drain"]["records_per_s"], "records/s", kind="rate"),
            Figure(lambda r: r["drain"]["mb_per_s"], "MB/s", kind="rate"),
        ),
    ),
    Line(
        f"queue group, 48 workers, batches of {queue_groups.BATCH}: delivered and acked, one node",
        (
            Figure(
                lambda r: r["queue_groups"]["records_per_s"],
                "records/s",
                kind="rate",
                at_least=3_000,
            ),
        ),
    ),
    Line(
        f"nacked for {queue_groups.DELAY_MS} ms: delay beyond that, under load",
        (
            Figure(lambda r: r["queue_groups"]["late_p50_ms"], "ms", "p50", "time"),
            Figure(lambda r: r["queue_groups"]["late_p99_ms"], "ms", "p99", "time", at_most=250),
        ),
    ),
    Line(
        "1,000,000 delayed records pending, in the node that has them",
        (Figure(lambda r: r["queue_groups"]["delayed_mib"], "MiB", at_most=286),),
    ),
    Line("`lakequeue up` ready", (Figure(lambda r: r["ready_s"], "s", kind="time", at_most=30),)),
    Line(
        "CPU of all services, idle",
        (Figure(lambda r: r["idle"]["cpu_cores"] * 100, "% of a core", at_most=10),),
    ),
    Line(
        "memory of all services (PSS)",
        (Figure(lambda r: r["idle"]["pss_mib"] / 1024, "GiB", digits=1, at_most=3),),
    ),
)


def main() -> None:
    """Measure, write the results, put them into the README."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--drain-records", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path, default=HERE, help="another folder: leaves README.md")
    args = parser.parse_args()
    where = machine.describe()
    rounds: list[Round] = []
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        rounds.append(_round(args.seconds, args.drain_records))
    results = {"machine": where, "rounds": rounds}
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    text = render(where, rounds)
    (args.out / "results.md").write_text(text)
    if args.out == HERE:
        put("bench", text)
    print(text)


def _round(seconds: float, drain_records: int) -> Round:
    """Everything, once."""
    with tempfile.TemporaryDirectory() as folder:
        found: Round = _running(Path(folder), seconds)
    found["ordering"] = _ordering()
    with tempfile.TemporaryDirectory() as folder:
        found["drain"] = drain.measure(Path(folder), drain_records)
    found["queue_groups"] = queue_groups.measure()
    return found


def _running(folder: Path, seconds: float) -> dict[str, Any]:
    """What is measured on one running queue."""
    began = time.monotonic()
    with Cluster(ClusterOptions(root=str(folder / "queue"))) as cluster:
        cluster.wait_ready()
        ready_s = time.monotonic() - began
        with Admin(cluster.ingest_urls, cluster.consumer_urls) as admin:
            admin.create_topic(latency.TOPIC, partitions=PARTITIONS)
        ingest, consumer = cluster.ingest_urls[0], cluster.consumer_urls[0]
        measured = latency.measure(ingest, consumer, folder, RATE, seconds, WARM_UP_S)
        time.sleep(5.0)  # what the load left behind is worked off
        idle = machine.usage(os.getpid(), IDLE_S)
    return {"ready_s": round(ready_s, 1), "latency": measured, "idle": idle}


def _ordering() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "ordering.json"
        subprocess.run(
            [sys.executable, "-m", "bench.ordering", "--json", str(out)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        result: dict[str, Any] = json.loads(out.read_text())
    return result


def render(where: machine.Machine, rounds: Sequence[Round]) -> str:
    """The results as a Markdown table, with the machine below it."""
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    records = rounds[0]["latency"]["end_to_end"]["records"]
    return "\n".join(
        [
            *table(LINES, rounds, where["speed"]["loop_s"]),
            "",
            f"1,000 records/s of 1 kB over {PARTITIONS} partitions, {records:,} records a round "
            f"after {WARM_UP_S:.0f} s of warm-up; {rounds[0]['drain']['records']:,} records "
            "drained; everything on one machine. *In loops* is the figure divided or multiplied by "
            "the time that the loop below takes: compare machines by it. A target holds for the "
            "median.",
            "",
            f"{machine.sentence(where)} {versions}. Measured {where['measured_at'][:10]} by "
            "`make bench`.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
