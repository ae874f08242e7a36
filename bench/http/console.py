"""The console on a queue with many topics and groups: its first screen, and what live costs.

python -m bench.http.console [--topics 500] [--groups 200] [--seconds 60]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import httpx2
import psutil

from lakequeue import Admin
from lakequeue_cli.supervisor.cluster import Cluster, ClusterOptions

LOOKS = 5


def main(topics: int, groups: int, seconds: float) -> dict[str, float]:
    """Seconds of first screens, and shares of a core while one page is open."""
    with tempfile.TemporaryDirectory() as place:
        options = ClusterOptions(root=f"{place}/queue", drivers=0, console=("127.0.0.1", 0))
        with Cluster(options) as cluster:
            cluster.wait_ready()
            with Admin(cluster.ingest_urls, cluster.consumer_urls, timeout_s=60) as admin:
                for number in range(topics):
                    admin.create_topic(f"topic-{number:03}", partitions=1)
                for number in range(groups):
                    name = f"topic-{number % topics:03}"
                    admin.seek(f"group-{number:03}", "earliest", topics=[name])
            return {"topics": topics, "groups": groups, **measured(cluster, seconds)}


def measured(cluster: Cluster, seconds: float) -> dict[str, float]:
    """`cold` is a console that has seen nothing yet."""
    cold = first_screens_of_new_consoles(cluster)
    url = str(cluster.console_url)
    with httpx2.Client(base_url=url, timeout=30) as http:
        warm = []
        for _ in range(LOOKS):
            began = time.perf_counter()
            http.get("/").raise_for_status()
            warm.append(time.perf_counter() - began)
        idle = shares(cluster, seconds, lambda: None)
        live = shares(cluster, seconds, lambda: http.get("/live/overview", headers={"X-Live": "-"}))
    return {
        "first_screen_cold_s": round(statistics.median(cold), 3),
        "first_screen_warm_s": round(statistics.median(warm), 3),
        **{f"idle_{name}_core": round(share, 4) for name, share in idle.items()},
        **{f"live_{name}_core": round(share, 4) for name, share in live.items()},
    }


def first_screens_of_new_consoles(cluster: Cluster) -> list[float]:
    """A process each, and its first page."""
    took = []
    for _ in range(LOOKS):
        command = [
            *(sys.executable, "-m", "console", "--root", cluster.root, "--port", "0"),
            *("--ingest-url", cluster.ingest_urls[0], "--consumer-url", cluster.consumer_urls[0]),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            began = time.perf_counter()
            httpx2.get(url, timeout=30).raise_for_status()
            took.append(time.perf_counter() - began)
            process.terminate()
    return took


def shares(cluster: Cluster, seconds: float, look: object) -> dict[str, float]:
    """The share of a core that each process takes, with a look every five seconds."""
    assert callable(look)
    processes = {
        name: psutil.Process(cluster.child(name).pid)
        for name in ("console", "ingest-1", "consumer-1")
    }
    before = {name: sum(one.cpu_times()[:2]) for name, one in processes.items()}
    pause, until = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < until:
        look()
        pause.wait(5.0)
    return {
        name: (sum(one.cpu_times()[:2]) - before[name]) / seconds for name, one in processes.items()
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.http.console", description=__doc__)
    parser.add_argument("--topics", type=int, default=500)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0)
    args = parser.parse_args()
    print(json.dumps(main(args.topics, args.groups, args.seconds), indent=2))
