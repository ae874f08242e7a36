"""`make bench`: everything the README quotes, from one run, into bench/results.{json,md}.

    python -m bench [--seconds 60] [--drain-records 1000000] [--no-readme]

Measures, one after the other, with nothing else of ours running: time to ready, latency at
1,000 records/s of 1 kB over 8 partitions, CPU and memory when idle, ordering throughput with
1,000,000 ids in the window, drain throughput, and queue groups.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import drain, latency, machine, queue_groups
from lakequeue.client.admin import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
RATE = 1_000
PARTITIONS = 8
WARM_UP_S = 30.0
IDLE_S = 30.0


def main() -> None:
    """Measure, write the results, put them into the README."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--drain-records", type=int, default=1_000_000)
    parser.add_argument("--no-readme", action="store_true", help="leave README.md as it is")
    args = parser.parse_args()
    results: dict[str, Any] = {"machine": machine.describe()}
    with tempfile.TemporaryDirectory() as folder:
        results |= _running(Path(folder), args.seconds)
    results["ordering"] = _ordering()
    with tempfile.TemporaryDirectory() as folder:
        results["drain"] = drain.measure(Path(folder), args.drain_records)
    results["queue_groups"] = queue_groups.measure()
    (HERE / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    table = render(results)
    (HERE / "results.md").write_text(table)
    if not args.no_readme:
        _into_readme(table)
    print(table)


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


def render(results: dict[str, Any]) -> str:
    """The results as a Markdown table, with the machine below it."""
    acked, end_to_end = results["latency"]["acknowledged"], results["latency"]["end_to_end"]
    ordering, drained, idle = results["ordering"], results["drain"], results["idle"]
    queued = results["queue_groups"]
    where: machine.Machine = results["machine"]
    rows = [
        ("send → acknowledged (durable)", _latency(acked), "p99 ≤ 80 ms"),
        ("send → received by a consumer", _latency(end_to_end), "p50 ≤ 400 ms, p99 ≤ 800 ms"),
        (
            f"ordering, {ordering['known_ids']:,} ids in the window",
            f"{ordering['mb_per_s']:.0f} MB/s ({ordering['records_per_s']:,} records/s)",
            "≥ 100 MB/s",
        ),
        (
            f"draining {drained['records']:,} records to one consumer",
            f"{drained['records_per_s']:,} records/s ({drained['mb_per_s']:.0f} MB/s)",
            "–",
        ),
        (
            f"queue group, {queued['workers']} workers, batches of {queue_groups.BATCH}",
            f"{queued['records_per_s']:,} records/s delivered and acked, one node",
            "≥ 3,000 records/s",
        ),
        (
            f"nacked for {queue_groups.DELAY_MS} ms: delay beyond that, under load",
            f"p50 {queued['late_p50_ms']:.0f} ms, p99 {queued['late_p99_ms']:.0f} ms",
            "p99 ≤ 250 ms",
        ),
        (
            f"{queued['delayed']:,} delayed records pending",
            f"{queued['delayed_mib']} MiB in the node that has them",
            "≤ 300 MB",
        ),
        ("`lakequeue up` ready", f"{results['ready_s']:.0f} s", "≤ 30 s"),
        ("CPU of all services, idle", f"{idle['cpu_cores'] * 100:.0f} % of a core", "≤ 10 %"),
        ("memory of all services (PSS)", f"{idle['pss_mib'] / 1024:.1f} GiB", "≤ 3 GiB"),
    ]
    lines = ["| measure | found | target |", "|---|---|---|"]
    lines += [f"| {name} | {found} | {target} |" for name, found, target in rows]
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    lines += [
        "",
        f"1,000 records/s of 1 kB over {PARTITIONS} partitions, {end_to_end['records']:,} records "
        f"measured after {WARM_UP_S:.0f} s of warm-up, everything on one machine: {where['cores']} "
        f"cores, {where['memory_gib']:.0f} GiB, local disk, Linux {where['kernel']}, Python "
        f"{where['python']}; {versions}. Measured {where['measured_at'][:10]} by `make bench`.",
        "",
    ]
    return "\n".join(lines)


def _latency(found: dict[str, float]) -> str:
    return f"p50 {found['p50_ms']:.0f} ms, p99 {found['p99_ms']:.0f} ms"


def _into_readme(table: str) -> None:
    text = README.read_text()
    before, rest = text.split("<!-- bench -->\n", 1)
    _, after = rest.split("<!-- /bench -->", 1)
    README.write_text(f"{before}<!-- bench -->\n{table}<!-- /bench -->{after}")


if __name__ == "__main__":
    main()
