"""Commits of a shard that cannot be read, or stand under a stamp that is none, written anew.

A part of `lakequeue repair`. What such a commit brought is in its data file, with its stamp in each
row, so the commit can be made again. Where nothing was brought, an empty one takes its place. The
file is replaced in one step: no version is ever free for another commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote

from lakequeue.clock import wall_micros
from lakequeue.records import Stamp, Version
from queue_tables.delta.actions import Action, Add, Commit, CommitInfo, Txn, commit_path, encode
from queue_tables.delta.columns import Table
from queue_tables.delta.stamps import STAMP_TXN, sound_stamp
from queue_tables.delta.store import Store
from queue_tables.delta.tail import find_version
from queue_tables.files.parquet import file_stats, read_data_file
from queue_tables.schema.marks import BATCH_TXN, GROUP_TXN
from queue_tables.shards.damage import Unnamed, brought_by, kept_commits, neighbours, stamp_in


class Anew(NamedTuple):
    """What is to be done about one commit."""

    version: Version
    says: str
    """In a sentence."""
    data: bytes | None
    """The new commit; None: it cannot be told what it was."""
    was: bytes = b""
    """What the file holds."""


def commits_anew(store: Store, path: str, declared: Table, done: Callable[[], Stamp]) -> list[Anew]:
    """What of a shard is to be written anew; `done`: up to there it is ordered or folded."""
    commits = list(kept_commits(store, path))
    anew = list(_torn(store, path, declared, commits))
    if any(True for _ in _odd(store, path, commits, 0)):
        # A stamp that is done with is what the mark of the shard says: it stays.
        anew += _odd(store, path, commits, find_version(store, path, done()) + 1)
    return [one._replace(was=store.get(commit_path(path, one.version))) for one in anew]


def write_anew(store: Store, path: str, anew: Sequence[Anew]) -> None:
    """Do it. Safe beside everything, and twice: a file that is another by now stays."""
    for one in anew:
        if one.data is not None:
            store.replace(commit_path(path, one.version), one.was, one.data)


def _torn(store: Store, path: str, declared: Table, commits: Sequence[Commit]) -> Iterator[Anew]:
    bulk = any(BATCH_TXN in commit.txns for commit in commits)
    for commit in (c for c in commits if c.torn):
        version = commit.version
        found = brought_by(store, path, version)
        names = ", ".join(one.path for one in found)
        if not found:
            said = f"write an empty commit {version}, which cannot be read: no rows of it are there"
            yield Anew(version, said, encode([_made({})]))
        elif bulk or (len(found) > 1 and path.startswith("inbox/")):
            said = f"commit {version} cannot be read, and may have brought {names}: restore it"
            yield Anew(version, f"{said} from a backup", None)
        else:
            data = encode(_rebuilt(store, path, declared, list(commits), version, found))
            yield Anew(version, f"write commit {version} anew, which brought {names}", data)


def _rebuilt(
    store: Store,
    path: str,
    declared: Table,
    commits: list[Commit],
    version: Version,
    found: Sequence[Unnamed],
) -> list[Action]:
    adds, size = [], 0
    for one in found:
        rows = read_data_file(store, path, one.path)
        hour = unquote(one.path.partition("/")[0].removeprefix("hour="))
        length = store.size(f"{path}/{one.path}")
        stats = file_stats(rows, declared.stats)
        adds.append(Add(one.path, length, {"hour": hour}, wall_micros() // 1_000, stats=stats))
        size += rows.nbytes
    before = [c.txns[GROUP_TXN] for c in commits if c.version < version and GROUP_TXN in c.txns]
    stamp = max(one.stamp for one in found)
    info = {"stamp": stamp, "rows": sum(one.rows for one in found), "bytes": size}
    marks = [Txn(GROUP_TXN, max(before, default=0) + 1), Txn(STAMP_TXN, stamp)]
    return [_made(info), *marks, *adds]


def _odd(store: Store, path: str, commits: Sequence[Commit], first: int) -> Iterator[Anew]:
    """Of what is not done yet: a stamp that is none, or does not rise."""
    last = max((s for c in commits if c.version < first and (s := sound_stamp(c))), default=0)
    for commit in commits:
        if commit.version < first or not commit.appends:
            continue
        said = sound_stamp(commit)
        if said is not None and said > last:
            last = said
            continue
        low, high = neighbours([c for c in commits if c is not commit], commit.version)
        low = max(low, Stamp(last))
        own = stamp_in(store, path, commit.adds[0]) if len(commit.adds) == 1 else None
        what = f"commit {commit.version} brings rows under a stamp that is none"
        if own is None or not low < own < high:
            why = f"{what}, and the stamp of its rows is not between {low} and {high}"
            yield Anew(commit.version, f"{why}: restore it from a backup", None)
            continue
        last = own
        data = encode(_restamped(commit, own))
        yield Anew(commit.version, f"{what}: give it {own}, that of its rows", data)


def _restamped(commit: Commit, stamp: Stamp) -> Iterator[Action]:
    for action in commit.actions:
        match action:
            case CommitInfo():
                yield replace(action, lakequeue={**action.lakequeue, "stamp": stamp})
            case Txn() if action.app_id == STAMP_TXN:
                yield replace(action, version=stamp)
            case _:
                yield action


def _made(info: dict[str, int]) -> CommitInfo:
    return CommitInfo(info, wall_micros() // 1_000, "REPAIR")
