"""What of a batch is copied into which log file. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from jobs.ordering.numbering import Ordered, TopicRule
from jobs.rows.projected_rows import ProjectedBatch, codes_of
from lakequeue.clock import hour_of
from lakequeue.records import TopicId
from queue_tables.log.writer import PLAN


def log_plan(
    batch: ProjectedBatch,
    ordered: Ordered,
    topics: Mapping[TopicId, TopicRule],
    now: int,
    files: int,
) -> pa.Table:
    """What to copy where: one row a survivor, sorted by (out_file, topic, partition, offset).

    Files are cut at borders of partitions, so that each holds offsets without gaps.
    """
    rows = ordered.survivors
    names = np.array([topics[t].name if t in topics else "" for t in batch.topics], object)
    rank = np.argsort(np.argsort(names, kind="stable"), kind="stable")
    topic, partition = batch.topic[rows], batch.partition[rows]
    by_place = np.lexsort((ordered.offsets, partition, rank[topic]))
    rows, offsets = rows[by_place], ordered.offsets[by_place]
    topic, partition = batch.topic[rows], batch.partition[rows]
    place = topic.astype(np.int64) << 32 | partition
    borders = np.flatnonzero(place[1:] != place[:-1]) + 1
    out_file = np.searchsorted(_cuts(borders, len(rows), files), np.arange(len(rows)), "right")
    projected = batch.table.select(["file", "row", "topic_id", "shard"]).take(pa.array(rows))
    count = len(rows)
    columns = {
        "file": projected["file"].cast(pa.string()),
        "row": projected["row"],
        "topic": pa.DictionaryArray.from_arrays(pa.array(topic), pa.array(names, pa.string())).cast(
            pa.string()
        ),
        "topic_id": projected["topic_id"].cast(pa.string()),
        "partition": pa.array(partition),
        "offset": pa.array(offsets),
        "ordered_at": pa.repeat(pa.scalar(now, pa.timestamp("us", tz="UTC")), count),
        "shard": projected["shard"].cast(pa.string()),
        "hour": pa.repeat(pa.scalar(hour_of(now)), count),
        # As wide as they get: the plan is sorted by these labels.
        "out_file": pa.array([f"{n:05d}" for n in range(files)]).take(pa.array(out_file)),
    }
    return pa.table(columns, schema=PLAN)


def by_file(plan: pa.Table) -> list[pa.Table]:
    """The rows of each file."""
    labels = plan["out_file"].to_numpy(zero_copy_only=False)
    begins = [0, *(np.flatnonzero(labels[1:] != labels[:-1]) + 1).tolist(), len(labels)]
    return [plan.slice(begin, end - begin) for begin, end in pairwise(begins)]


def places_in(plan: pa.Table, rows: pa.Table) -> npt.NDArray[np.int64]:
    """Of each of `rows` (`PROJECTED`) its place in the plan; -1 if it is not copied."""
    names, file = codes_of(rows["file"])
    planned_names, planned_file = codes_of(plan["file"])
    if not len(planned_names):
        return np.full(rows.num_rows, -1, np.int64)
    numbers = {name: number for number, name in enumerate(names)}
    renamed = np.array([numbers[name] for name in planned_names], np.int64)
    planned = renamed[planned_file] << 32 | plan["row"].to_numpy()
    wanted = file.astype(np.int64) << 32 | rows["row"].to_numpy()
    by_key = np.argsort(planned)
    at = np.minimum(np.searchsorted(planned[by_key], wanted), len(planned) - 1)
    return np.where(planned[by_key][at] == wanted, by_key[at], -1)


def _cuts(borders: npt.NDArray[np.int64], rows: int, files: int) -> npt.NDArray[np.int64]:
    """Where files end: of `borders` those nearest to equal shares; fewer if there are few."""
    if not len(borders):
        return borders
    shares = np.arange(1, files) * rows // files
    return np.unique(borders[np.abs(borders[:, None] - shares).argmin(axis=0)])
