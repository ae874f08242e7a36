"""The offsets job as a `StreamingJob`: folds the facts of the journal shards into
`group_offsets`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import SparkSession

from jobs.rows.key_projection import FENCE
from jobs.rows.projected_rows import above
from jobs.source.leader_state import LeaderState
from jobs.streaming.checkpoints import Checkpoints
from jobs.streaming.leader import StreamingJob
from jobs.streaming.query import Part
from jobs.streaming.sealing import Sealer
from lakequeue import metrics
from lakequeue.errors import NotReady
from lakequeue.metrics.declaring import Sample
from lakequeue.records import Epoch, ShardName, Stamp, Version
from lakequeue.steps import Step, reach
from queue_tables.delta.stamps import LAST_STAMP
from queue_tables.groups.backlog import lag_of, open_by_stage
from queue_tables.groups.fact_checks import SetAside
from queue_tables.groups.fact_rows import news_from_arrow
from queue_tables.groups.facts import Fence, GroupState, Key, fold, fold_news
from queue_tables.groups.set_aside import SetAsideLog
from queue_tables.groups.state import GroupOffsetsWriter
from queue_tables.log.marks import LogMarks
from queue_tables.root import QueueRoot
from queue_tables.schema.marks import offset_mark
from queue_tables.schema.schemas import GROUP_OFFSETS
from queue_tables.topics import TopicStore
from queue_tables.upkeep.delta_rs import trim_table
from serving.meters import Meters

TRIM_EVERY = 300
"""Commits: each rewrites the table, so this many old files pile up at most."""

log = structlog.get_logger("offsets")


class OffsetsJob(StreamingJob):
    """Folds journal shards; one overwriting commit a batch."""

    name = "offsets"
    source_topic = "journal"
    standby_topic = "journal"
    writers_role = "consumer"

    def __init__(self, root: QueueRoot) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._version = Version(0)
        self._sealer = Sealer(root, "journal")
        self._checkpoints = Checkpoints(root, GROUP_OFFSETS.name, TRIM_EVERY, trim_table)
        self._writer: GroupOffsetsWriter | None = None
        self._epoch = Epoch(0)
        self._states: dict[Key, GroupState] = {}
        self._folded: dict[ShardName, Stamp] = {}
        self._marks = LogMarks(root)
        self._topics: TopicStore | None = None
        self._meters: Meters | None = None
        self._aside = SetAsideLog()
        self.done = Counter(batches=0, facts=0)

    def watch(self, meters: Meters) -> None:
        """Count folds; tell of the groups' backlogs, by the folded state."""
        self._meters = meters
        meters.counts(
            metrics.driver.FOLD_S, metrics.driver.FOLDED_FACTS, metrics.driver.FACTS_SET_ASIDE
        )
        meters.on_scrape(
            self._backlogs,
            metrics.driver.GROUPS,
            metrics.driver.GROUP_LAG,
            metrics.driver.GROUP_OPEN,
        )

    def _backlogs(self) -> Iterator[Sample]:
        if not self._epoch:
            return  # the leader tells
        states = [state for state in self._states.values() if not state.deleted]
        yield Sample(metrics.driver.GROUPS, len({state.group for state in states}))
        topics = self._topics_now()
        # What waits of a topic that is gone waits for nobody; its name may be another one's now.
        states = [state for state in states if topics.by_id(state.topic_id) is not None]
        marks = self._marks.read(*{offset_mark(s.topic_id, s.partition) for s in states})
        lags: Counter[tuple[str, ...]] = Counter()
        opened: Counter[tuple[str, ...]] = Counter()
        for state in states:
            end = marks.get(offset_mark(state.topic_id, state.partition), 0)
            lags[state.group, state.topic] += lag_of(state, 0, end)
            for stage, count in open_by_stage(state).items():
                opened[state.group, stage] += count
        yield from (Sample(metrics.driver.GROUP_LAG, lag, labels) for labels, lag in lags.items())
        yield from (Sample(metrics.driver.GROUP_OPEN, n, labels) for labels, n in opened.items())

    def _topics_now(self) -> TopicStore:
        if self._topics is None:
            self._topics = TopicStore(self._root)
        else:
            self._topics.refresh()
        return self._topics

    def warm(self) -> None:
        """Nothing: the folded state is read in one go when the term begins."""

    def follow(self) -> None:
        """Nothing."""

    def recorded_epoch(self) -> Epoch:
        """The newest epoch in `group_offsets`."""
        return GroupOffsetsWriter(self._root).recorded_epoch

    def begin(self, epoch: Epoch) -> None:
        """Commit the epoch; read the state to go on from."""
        with self._lock:
            self._writer = GroupOffsetsWriter(self._root)
            self._states, self._folded = self._writer.begin(epoch)
            self._epoch = epoch

    def state(self) -> LeaderState:
        """Epoch and fold positions."""
        with self._lock:
            return LeaderState(self._epoch, dict(self._folded))

    def process(self, _spark: SparkSession, parts: Sequence[Part]) -> None:
        """Fold one cut of facts."""
        for read in parts:
            self.fold(read()[0])

    def fold(self, rows: pa.Table) -> None:
        """Folding twice changes nothing, so nothing here has to be exact."""
        began = time.perf_counter()
        with self._lock:
            if self._writer is None:
                raise NotReady("a batch without a term")
            fences, facts = _fences(rows), rows.filter(pc.not_equal(rows["kind"], FENCE))
            facts = above(facts, self._folded)
            if facts.num_rows == 0:
                return
            reach(Step.FOLD_READ)
            shards = pc.unique(facts["shard"]).to_pylist()
            states, folded = self._states, dict(self._folded)
            aside: list[SetAside] = []
            for shard in shards:
                mine = facts.filter(pc.equal(facts["shard"], shard))
                states = fold_news(states, news_from_arrow(mine, ShardName(shard), aside))
                # What is set aside is done with as well, unless it is the stamp that is odd.
                stamps = mine["stamp"].filter(pc.less(mine["stamp"], LAST_STAMP))
                if len(stamps):
                    folded[ShardName(shard)] = Stamp(pc.max(stamps).as_py())
            # A sealed shard needs no fence any more: it is forgotten as a holder.
            states = fold(states, (), fences, set(self._sealer.sealed))
            version = self._writer.commit(states, folded)
            self._states, self._folded, self._version = states, folded, version
            self.done.update(batches=1, facts=facts.num_rows)
            set_aside = self._aside.found(aside)
        if self._meters is not None:
            self._meters.count(metrics.driver.FOLDED_FACTS, facts.num_rows - len(aside))
            if set_aside:
                self._meters.count(metrics.driver.FACTS_SET_ASIDE, set_aside)
            self._meters.observe(metrics.driver.FOLD_S, time.perf_counter() - began)
        log.debug("facts.folded", facts=facts.num_rows, states=len(states), version=version)

    def upkeep(self, live_nodes: set[str] | None) -> None:
        """Trim `group_offsets`; seal journal shards whose node is gone."""
        with self._lock:
            folded, version = dict(self._folded), self._version
        self._checkpoints.write_if_due(version)
        if live_nodes is not None:
            self._sealer.seal_abandoned(live_nodes, folded)


def _fences(rows: pa.Table) -> list[Fence]:
    said = rows.filter(pc.equal(rows["kind"], FENCE)).select(
        ["shard", "group", "topic_id", "partition", "epoch"]
    )
    return [Fence(*row.values()) for row in said.to_pylist()]
