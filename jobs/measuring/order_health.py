"""What the doctor says of ordering: what was put aside, which shards wait, what is missing."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from lakequeue.clock import Micros, hour_of, wall_micros
from lakequeue.errors import CorruptTable, SchemaDrift
from lakequeue.records import Partition, ShardName

if TYPE_CHECKING:
    from jobs.measuring.stuck_shards import Stuck
    from queue_tables.delta.store import Store
    from queue_tables.root import ShardKind

_DAY_US = 86_400_000_000


class Said(NamedTuple):
    """One line: whether it is a warning, the sentence, the remedy."""

    warns: bool
    detail: str
    fix: str = ""


def look_at_order(root_uri: str) -> Iterator[Said]:
    """Read the tables of a queue, and say what they tell. Raises storage errors."""
    from jobs.measuring.stuck_shards import stuck_shards
    from queue_tables.log.reader import LogReader
    from queue_tables.log.rejected import RejectFilter, counts
    from queue_tables.root import QueueRoot
    from queue_tables.schema.reasons import Fate, with_fate
    from queue_tables.topics import TopicStore

    root = QueueRoot.existing(root_uri)
    yield from refused(root.store, wall_micros())
    since = Micros(wall_micros() - _DAY_US)
    yield put_aside(counts(root, RejectFilter(reasons=with_fate(Fate.PUT_ASIDE), since=since)))
    yield from (waits("inbox", *one) for one in sorted(stuck_shards(root).items()))
    # If `group_offsets` cannot be read, the look at the tables says so.
    with suppress(CorruptTable, SchemaDrift):
        journals = stuck_shards(root, "journal")
        yield from (waits("journal", *one) for one in sorted(journals.items()))
    reader = LogReader(root, ["offset"])
    if reader.is_plain():
        return  # no other engine's files: there are no gaps, and to look for them costs much
    for topic in TopicStore(root).list():
        for partition in map(Partition, range(topic.partitions)):
            if gaps := reader.gaps(topic.topic_id, partition):
                yield missing(f"{topic.topic}/{partition}", gaps)


def refused(store: Store, now: Micros) -> Iterator[Said]:
    """Whether storage takes all files that ordering writes: of the log, of `rejects`, commits."""
    from lakequeue.errors import RootUnusable, StorageUnavailable

    for folder, waits in _written(hour_of(now)).items():
        path = f"{folder}/.doctor-{secrets.token_hex(4)}"
        try:
            store.put(path, b"")
            store.delete(path)
            if not folder.endswith("_delta_log"):
                store.remove_folder(folder)
        except (RootUnusable, StorageUnavailable) as error:
            detail = f"storage refuses {folder}, so {waits}"
            remedy = error.hint or "mend the storage; no restart"
            yield Said(True, f"{detail}: {error.detail}", remedy)


def _written(hour: str) -> dict[str, str]:
    """Folder that ordering writes to -> what waits if it cannot."""
    nothing = "nothing is ordered"
    some = "ordering waits at the first row that goes there"
    return {
        f"log/hour={hour}": nothing,
        "log/_delta_log": nothing,
        f"rejects/hour={hour}": some,
        "rejects/_delta_log": some,
    }


def put_aside(counts: Mapping[tuple[str | None, str], int]) -> Said:
    """Of the records that could not be ordered within a day, by topic and reason. Pure."""
    if not counts:
        return Said(False, "every record of the last day could be ordered")
    reasons: Counter[str] = Counter()
    for (_, reason), count in counts.items():
        reasons[reason] += count
    topics = sorted({topic or "an unknown topic" for topic, _ in counts})
    said = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    detail = (
        f"{sum(reasons.values())} records of {', '.join(topics[:5])} could not be ordered within "
        f"the last day and are kept in rejects ({said})"
    )
    return Said(True, detail, "lakequeue rejects list --since 24h")


def waits(kind: ShardKind, shard: ShardName, stuck: Stuck) -> Said:
    """Of a shard that waits. Pure."""
    path = f"{kind}/{shard}"
    then = (
        "all other shards go on"
        if kind == "inbox"
        else "its facts count, and are folded when it is mended"
    )
    return Said(True, f"{path} waits: {stuck.why.removeprefix(f'{path}: ')}; {then}", stuck.remedy)


def missing(where: str, gaps: Sequence[tuple[int, int]]) -> Said:
    """Of a partition without records at the offsets [from, to) of `gaps`. Pure."""
    count = sum(to - low for low, to in gaps)
    shown = [str(low) if to - low == 1 else f"{low} to {to - 1}" for low, to in gaps[:5]]
    more = ", …" if len(gaps) > len(shown) else ""
    return Said(
        True,
        f"{where} has no record at {count} offsets ({', '.join(shown)}{more}): another engine "
        "deleted them before the table was guarded; groups pass them",
        "only a backup brings them back; to delete records use lakequeue erase",
    )
