"""Removes shards that are sealed and done with to their end, and what is left of half removals.

The order makes every moment harmless. Data files first: nobody reads them any more. Then the
checkpoints, then the commits from old to new: as soon as one is missing that no checkpoint stands
for, the folder stands for no table and is not listed. The newest commit last: an owner that sleeps,
and does not know of the seal, meets it there, or finds the commit before its own gone, and either
way does not append.
"""

from __future__ import annotations

from lakequeue.records import ShardName
from lakequeue.steps import Step, reach
from queue_tables.delta.actions import commit_version, has_table
from queue_tables.root import QueueRoot, ShardKind
from queue_tables.shards.shards import shard_path

_LOG = "_delta_log"


def remove_shard(root: QueueRoot, kind: ShardKind, shard: ShardName) -> None:
    """Remove the shard and all its files. It must be sealed, and done with. Idempotent."""
    store, path = root.store, shard_path(kind, shard)
    for folder in store.names(path):
        if folder != _LOG:
            for name in store.names(f"{path}/{folder}"):
                store.delete(f"{path}/{folder}/{name}")
            store.remove_folder(f"{path}/{folder}")
    reach(Step.SHARD_DATA_REMOVED)
    names = store.names(f"{path}/{_LOG}")
    commits = [name for name in names if commit_version(name) is not None]
    others = [name for name in names if commit_version(name) is None]
    for name in (*others, *commits):
        store.delete(f"{path}/{_LOG}/{name}")
        reach(Step.SHARD_LOG_REMOVING)
    store.remove_folder(f"{path}/{_LOG}")
    store.remove_folder(path)


def end_removals(root: QueueRoot, kind: ShardKind) -> list[ShardName]:
    """Go on where earlier removals were killed; the shards whose log was still there in part."""
    found = []
    for name in root.store.names(kind):
        log = root.store.names(f"{kind}/{name}/{_LOG}")
        if has_table(log):
            continue
        if any(commit_version(n) is not None for n in log):
            remove_shard(root, kind, ShardName(name))
            found.append(ShardName(name))
        else:
            # Or its creation is under way: then it makes its folders again. Files are left alone,
            # tasks of a bulk writer put them here before there is a table.
            root.store.remove_folder(f"{kind}/{name}/{_LOG}")
            root.store.remove_folder(f"{kind}/{name}")
    return found
