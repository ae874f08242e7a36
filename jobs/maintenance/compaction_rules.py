"""Which files of `log` are rewritten together, and into what. Pure.

Two kinds of work, in closed hours: files that hold several topics are cut at the borders, and small
files of one topic are joined. Joined are neighbours only, since a file must hold offsets without
gaps: readers take the lowest and highest offset of a partition for all that is between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakequeue.clock import Micros
from lakequeue.records import Offset
from queue_tables.log.index import PartitionKey

Parts = Mapping[PartitionKey, tuple[Offset, Offset]]
"""Lowest and highest offset of each partition in a file."""


@dataclass(frozen=True, slots=True)
class HourFile:
    """A file of a closed hour, by its statistics."""

    path: str
    hour: str
    size: int
    topic_low: str
    topic_high: str
    ordered_at: Micros
    """Of its oldest record: files of one topic follow each other by it."""
    offset_low: int

    @property
    def mixed(self) -> bool:
        """It holds several topics."""
        return self.topic_low != self.topic_high


@dataclass(frozen=True, slots=True)
class Output:
    """Rows of one topic that become one file, or several where they are too many."""

    topic_id: str
    inputs: tuple[int, ...]
    """Positions in the group."""


def plan_groups(
    files: Iterable[HourFile], target_bytes: int, step_bytes: int
) -> Iterator[list[HourFile]]:
    """Groups of files to be rewritten, oldest hours first; nothing is in two of them.

    Files of several topics come first, up to `step_bytes` a group. An hour that has some is not
    joined in: their parts belong between.
    """
    hours: dict[str, list[HourFile]] = defaultdict(list)
    for file in files:
        hours[file.hour].append(file)
    for _, some in sorted(hours.items()):
        ordered = sorted(some, key=lambda file: (file.ordered_at, file.offset_low, file.path))
        mixed = [file for file in ordered if file.mixed]
        if mixed:
            yield from _packed(mixed, step_bytes, at_least=1)
            continue
        topics: dict[str, list[HourFile]] = defaultdict(list)
        for file in ordered:
            topics[file.topic_low].append(file)
        for _, mine in sorted(topics.items()):
            for run in _small_runs(mine, target_bytes // 2):
                yield from _packed(run, target_bytes, at_least=2)


def held_at_once(
    group: Sequence[HourFile], decoded: Sequence[int], most_bytes: int
) -> Iterator[list[HourFile]]:
    """The group in parts of at most `most_bytes` in memory (`decoded`: of each file), or one file.

    Values of one pattern compress a hundredfold: the size of a file does not tell what it holds.
    """
    part: list[HourFile] = []
    size = 0
    for file, more in zip(group, decoded, strict=True):
        if part and size + more > most_bytes:
            yield part
            part, size = [], 0
        part.append(file)
        size += more
    if part:
        yield part


def _small_runs(files: Sequence[HourFile], below: int) -> Iterator[list[HourFile]]:
    """Neighbours that are all small."""
    run: list[HourFile] = []
    for file in files:
        if file.size < below:
            run.append(file)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _packed(files: Sequence[HourFile], most_bytes: int, at_least: int) -> Iterator[list[HourFile]]:
    """Neighbours, as many as fit, and one at least."""
    group: list[HourFile] = []
    size = 0
    for file in files:
        if group and size + file.size > most_bytes:
            if len(group) >= at_least:
                yield group
            group, size = [], 0
        group.append(file)
        size += file.size
    if len(group) >= at_least:
        yield group


def outputs_of(group: Sequence[Parts]) -> list[Output]:
    """What becomes of the files of a group, in its order: topic by topic.

    A new output begins where a partition does not go on: what lies between is in another file.
    """
    found: dict[str, list[list[int]]] = defaultdict(list)
    ends: dict[PartitionKey, int] = {}
    for position, parts in enumerate(group):
        topics: dict[str, list[PartitionKey]] = defaultdict(list)
        for key in parts:
            topics[key.topic_id].append(key)
        for topic_id, keys in topics.items():
            runs = found[topic_id]
            goes_on = all(ends.get(key, parts[key][0] - 1) == parts[key][0] - 1 for key in keys)
            if not runs or not goes_on:
                runs.append([])
                ends = {key: end for key, end in ends.items() if key.topic_id != topic_id}
            runs[-1].append(position)
            ends |= {key: parts[key][1] for key in keys}
    return [
        Output(topic_id, tuple(run)) for topic_id, runs in sorted(found.items()) for run in runs
    ]


def worth_it(group: Sequence[HourFile], outputs: Sequence[Output]) -> bool:
    """Whether anything is gained: topics are parted, or there are fewer files."""
    return any(file.mixed for file in group) or len(outputs) < len(group)


def file_bounds(rows: int, size: int, target_bytes: int) -> list[tuple[int, int]]:
    """[start, end) of the files that `rows` rows of about `size` bytes become."""
    count = max(1, min(rows, round(size / target_bytes)))
    edges = [rows * n // count for n in range(count + 1)]
    return list(pairwise(edges))
