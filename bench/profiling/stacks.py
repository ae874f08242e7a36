"""Where the CPU goes: samples of py-spy, by the innermost function of a stage."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bench.peers.processes import PEERS_PYTHON

PY_SPY = PEERS_PYTHON.with_name("py-spy")
RATE_HZ = 100

STAGES: tuple[tuple[str, str], ...] = (
    ("parse and judge requests", "ingest/http/ queue_rules/produce/ ingest/node"),
    ("serialise deliveries", "consumer_service/reading/encode consumer_service/http/"),
    (
        "HTTP: connections, heads, answers",
        "serving/ flask/ werkzeug/ http/client.py http/server.py asyncio/",
    ),
    ("group wait and hand-over", "ingest/commit/ queue_tables/shards/group_commit"),
    ("dedup, number", "jobs/ordering/"),
    ("plan: scan shards, cut", "jobs/source/ jobs/streaming/"),
    ("rows to Spark and back", "jobs/rows/ pyspark/ py4j/ pandas/"),
    (
        "fsync, requests to storage (also waits for the disk)",
        "queue_tables/delta/store queue_tables/delta/object_store "
        "queue_tables/delta/storage_meter obstore/",
    ),
    ("Delta: commits read and written", "queue_tables/delta/ queue_tables/shards/ deltalake/"),
    ("Parquet and values", "queue_tables/files/ queue_tables/log/ pyarrow/"),
    (
        "state of groups",
        "queue_tables/groups/ jobs/folding/ jobs/offsets consumer_service/ownership/ "
        "consumer_service/members",
    ),
    ("notifications, ZooKeeper", "coordination/ kazoo/"),
    ("tail", "consumer_service/reading/"),
    ("polls and streams", "consumer_service/"),
    (
        "client",
        "lakequeue/client/ lakequeue/calling/ lakequeue/wire/ httpx2/ httpcore2/ h11/ bench/",
    ),
    ("metrics, logs, settings", "prometheus_client/ structlog/ lakequeue/"),
)
"""Fragments of paths; the first stage that has one of a frame's counts."""
OTHER = "other"
_WAITS = ("selectors.py", "threading.py", "socketserver.py", "socket.py", "queue.py")
"""Where a thread waits. py-spy now and then takes one for a thread that runs."""


def stage_of(stack: str) -> str:
    """Of the innermost frame that belongs to one: `outer (a.py:1);inner (b.py:2)`."""
    for frame in reversed(stack.split(";")):
        _, _, place = frame.rpartition(" (")
        for stage, fragments in STAGES:
            if any(f"/{fragment}" in f"/{place}" for fragment in fragments.split()):
                return stage
    return OTHER


def waits(stack: str) -> bool:
    """Whether the innermost function of a sample is one in which threads wait."""
    place = stack.rpartition(" (")[2].rpartition(":")[0]
    return place.rpartition("/")[2] in _WAITS


def by_stage(lines: Iterable[str]) -> Counter[str]:
    """Samples of each stage, of py-spy's raw output; those of threads that wait are left out."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rstrip().rpartition(" ")
        if count.isdigit() and not waits(stack):
            found[stage_of(stack)] += int(count)
    return found


class Recording:
    """py-spy at one process, for so many seconds; only threads that run are sampled.

    Without stopping them: a thread that is stopped looks like one that runs, even if it waits.
    """

    def __init__(self, pid: int, seconds: float, out: Path, form: str) -> None:
        self.out = out
        self._command = [
            *(str(PY_SPY), "record", "--pid", str(pid), "--duration", str(int(seconds))),
            *("--rate", str(RATE_HZ), "--format", form, "--output", str(out), "--nonblocking"),
            # Stages go by whole paths; a picture is to name no folder of the machine.
            *(["--full-filenames"] if form == "raw" else []),
        ]
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def wait(self, within_s: float) -> str | None:
        """Return when it is written; what was wrong, if it is not."""
        _, said = self._process.communicate(timeout=within_s)
        if self._process.returncode or not self.out.exists():
            return said.strip()[-300:]
        # A picture has the command for its title.
        title = f"py-spy, {RATE_HZ} samples a second"
        self.out.write_text(self.out.read_text().replace(" ".join(self._command), title))
        return None
