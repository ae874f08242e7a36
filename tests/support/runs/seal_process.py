"""Seals a shard, as a process that can be killed: `… --root DIR --shard NAME --crash-at STEP`."""

from __future__ import annotations

import argparse

from lakequeue.records import ShardName
from lakequeue.steps import arm
from queue_tables.root import QueueRoot
from queue_tables.shards.shards import seal_shard

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for name in ("root", "shard", "crash-at"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    arm(args.crash_at)
    seal_shard(QueueRoot.open(args.root, create=False), "inbox", ShardName(args.shard))
