"""How a replica's `log` gets to where the source's is, as pure functions.

A replica holds the source's own files. What is new is appended, in the order of offsets; then what
the source has rewritten (compaction, erasure) or dropped (retention) is exchanged. Each commit
leaves a prefix of every partition: what would not is left to the one commit that exchanges all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakequeue.records import Offset
from queue_tables.log.index import PartitionKey

Ends = Mapping[PartitionKey, int]
"""Next offset of each partition of the replica."""


@dataclass(frozen=True, slots=True)
class MirrorFile:
    """A file of the source that the replica does not have."""

    path: str
    size: int
    parts: Mapping[PartitionKey, tuple[Offset, Offset]]
    """Lowest and highest offset of each partition."""


@dataclass(slots=True)
class MirrorPlan:
    """What to commit, one after the other."""

    appends: list[list[MirrorFile]] = field(default_factory=list)
    """Files of new records; each list is a commit."""
    put: list[MirrorFile] = field(default_factory=list)
    take: list[str] = field(default_factory=list)
    """The commit behind them: these files come, those go."""

    @property
    def exchanges(self) -> bool:
        """Whether there is such a commit."""
        return bool(self.put or self.take)


def plan_mirror(
    added: Sequence[MirrorFile], gone: Collection[str], ends: Ends, step_bytes: int
) -> MirrorPlan:
    """The commits to make: `added` are not in the replica yet, `gone` no more in the source."""
    fresh = [f for f in added if all(a >= ends.get(k, 0) for k, (a, _) in f.parts.items())]
    seen = [f for f in added if all(b < ends.get(k, 0) for k, (_, b) in f.parts.items())]
    ordered = in_order(fresh, ends) if len(fresh) + len(seen) == len(added) else None
    if ordered is None:
        return MirrorPlan(put=list(added), take=sorted(gone))
    return MirrorPlan(_steps(ordered, step_bytes), seen, sorted(gone))


def in_order(files: Iterable[MirrorFile], ends: Ends) -> list[MirrorFile] | None:
    """`files` so that each goes on where the ones before it end, in all of its partitions.

    None if there is no such order, or what the replica has does not reach to where they begin.
    """
    queues: dict[PartitionKey, list[MirrorFile]] = defaultdict(list)
    for file in files:
        for key in file.parts:
            queues[key].append(file)
    ready_in: dict[str, int] = defaultdict(int)
    ready: list[MirrorFile] = []

    def head(key: PartitionKey) -> None:
        if queues[key]:
            file = queues[key][-1]
            ready_in[file.path] += 1
            if ready_in[file.path] == len(file.parts):
                ready.append(file)

    reached = {key: end for key, end in ends.items() if end}
    for key, queue in queues.items():
        queue.sort(key=lambda file: file.parts[key][0], reverse=True)
        head(key)
    ordered: list[MirrorFile] = []
    while ready:
        file = ready.pop(0)
        for key, (first, last) in file.parts.items():
            # The first copy of a partition begins where the source does.
            if first != reached.get(key, first):
                return None
            reached[key] = last + 1
            queues[key].pop()
            head(key)
        ordered.append(file)
    return None if any(queues.values()) else ordered


def ends_after(files: Iterable[MirrorFile]) -> dict[PartitionKey, int]:
    """Next offset of the partitions in these files."""
    ends: dict[PartitionKey, int] = {}
    for file in files:
        for key, (_, last) in file.parts.items():
            ends[key] = max(ends.get(key, 0), last + 1)
    return ends


def _steps(files: Sequence[MirrorFile], step_bytes: int) -> list[list[MirrorFile]]:
    """Neighbours together, up to so many bytes; one file at least."""
    steps: list[list[MirrorFile]] = []
    size = 0
    for file in files:
        if not steps or size + file.size > step_bytes:
            steps.append([])
            size = 0
        steps[-1].append(file)
        size += file.size
    return steps
