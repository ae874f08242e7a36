"""The marks of result tables, declared once for delta-rs and Spark. Pure.

A mark stands in the commit that has the rows, in two places:

| | `txn` actions | `userMetadata` |
|---|---|---|
| delta-rs, a partition a commit | next offset, and the version committed from | `PartitionMark` |
| Spark, a batch a commit | round | `Mark`: next offsets of all partitions |

They differ because the engines do. With delta-rs, consumers of different partitions write side by
side and must not share a `txn`; a write of Spark has one `txn`. So a group writes a table with one
engine. Each looks for the mark of the other, and refuses a table that has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from lakequeue.errors import InvalidRequest

Positions = Mapping[str, int]
"""Next offset by `<topic_id>/<partition>`."""


def group_app_id(group: str) -> str:
    """Name of the `txn` that Spark commits with: a round."""
    return f"lakequeue/{group}"


def app_id(group: str, topic_id: str, partition: int) -> str:
    """Name of the `txn` that delta-rs commits with: the next offset."""
    return f"{group_app_id(group)}/{topic_id}/{partition}"


def base_id(name: str) -> str:
    """Name of the other one: the version that was committed from."""
    return f"{name}/base"


@dataclass(frozen=True, slots=True)
class Mark:
    """What the table has of one group after a commit of Spark."""

    group: str
    round: int
    """Rises by one with each of the group's commits: the version of its `txn`."""
    run: str
    """Who committed, and which time: never the same twice."""
    positions: Positions
    restored: int | None = None
    """The newest RESTORE that the writer knew of, by version; -1: none. None: it does not say."""

    def to_json(self) -> str:
        """As `userMetadata`; begins with `needle(group)`."""
        fields: dict[str, Any] = {"group": self.group, "round": self.round, "run": self.run}
        fields |= {"positions": dict(self.positions), "restored": self.restored}
        return orjson.dumps({"lakequeue": fields}).decode()


def needle(group: str) -> str:
    """What the metadata of each commit of `group` by Spark begins with, and no other."""
    return orjson.dumps({"lakequeue": {"group": group}}).decode().removesuffix("}}") + ","


def parse_mark(group: str, metadata: str | None) -> Mark | None:
    """The mark of `group`, if the metadata of a commit has one."""
    if metadata is None or not metadata.startswith(needle(group)):
        return None
    return Mark(**orjson.loads(metadata)["lakequeue"])


def partition_mark(group: str, topic_id: str, partition: int, next_offset: int) -> str:
    """`userMetadata` of a commit by delta-rs; begins with `partition_needle(group)`.

    `DESCRIBE HISTORY` shows it, and no `txn`. Nothing is read back from it but that it is there.
    """
    positions = {f"{topic_id}/{partition}": next_offset}
    fields = {"partition_of": group, "positions": positions}
    return orjson.dumps({"lakequeue": fields}).decode()


def partition_needle(group: str) -> str:
    """What the metadata of each commit of `group` by delta-rs begins with, and no other."""
    return orjson.dumps({"lakequeue": {"partition_of": group}}).decode().removesuffix("}}") + ","


def written_by_other(group: str, other: str) -> InvalidRequest:
    """For a table in which the group has the mark of the other engine."""
    return InvalidRequest(
        f"group {group} has written to this table by {other}, whose position cannot be continued "
        "here: its records would be there twice",
        hint="write with another group, whose position you seek to where this one ended, or to "
        "another table",
    )
