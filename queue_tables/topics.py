"""The topics of a queue: created, altered and deleted by compare-and-set on the `topics` table.

Every change is one commit of one row at exactly the version after the one that was judged. Of two
processes that change topics at once one lands; the other reads what landed, and judges again.
A topic that is created again after a deletion is a new incarnation, with a new `topic_id`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakequeue.clock import WallClock, wall_micros
from lakequeue.errors import CommitConflict, OlderFormat, TailLost
from lakequeue.records import TopicId, Version, checked_name
from queue_tables.delta.actions import Add, Commit, Txn
from queue_tables.delta.table import TableLog
from queue_tables.files.parquet import read_data_file, write_data_file
from queue_tables.identity import identity_of
from queue_tables.root import QueueRoot
from queue_tables.schema.formats import VALUE_SCHEMAS
from queue_tables.schema.marks import TOPICS_TXN
from queue_tables.schema.schemas import TOPICS
from queue_tables.schema.topic_rules import Topic, altered, checked_config, is_new, unknown_topic
from queue_tables.schema.values.rules import OF_VALUES, WITH_VERSIONS, EarlierSchema


class TopicStore:
    """Topics of one root, cached; `refresh()` costs one probe when nothing has changed.

    Thread-safe. Every call that changes something refreshes first.
    """

    def __init__(
        self,
        root: QueueRoot,
        wall: WallClock = wall_micros,
        changed: Callable[[Version], None] = lambda _: None,
    ) -> None:
        """`changed` is told of each change of this process's own, once it is durable."""
        self._store = root.store
        self._wall = wall
        self._changed = changed
        self._lock = threading.RLock()
        self._table = TableLog(root.store, TOPICS.name).open()
        self._newest: dict[str, dict[str, Any]] = {}
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._names: dict[str, str] = {}
        self._schemas: dict[TopicId, dict[int, EarlierSchema]] = {}
        """Schemas in Avro, by the version of the topic that they came with."""
        self._behind = True
        """The table has moved on, and not all of it is in the cache (storage failed between)."""
        self._reload()

    @property
    def version(self) -> Version:
        """The version of the table up to which the cache is true."""
        return self._table.version

    def refresh(self) -> bool:
        """Read what others have committed; true if there was anything."""
        with self._lock:
            if self._behind:
                return self._reload()
            try:
                commits = self._table.refresh()
            except TailLost:  # commits were cleaned up behind a checkpoint: start from that
                return self._reload()
            if commits:
                self._behind = True
                # Records are accepted and refused by this: not by what a power cut could undo.
                self._table.make_durable()
                self._apply(commits)
                self._behind = False
            return bool(commits)

    def known(self, name: str) -> Topic | None:
        """The topic of that name, as of the last refresh; reads nothing."""
        return self._topics.get(name)

    def get(self, name: str) -> Topic:
        """The topic of that name; looks at the table once before it raises `UnknownTopic`."""
        topic = self._topics.get(name)
        if topic is None:
            self.refresh()
            topic = self._topics.get(name)
        if topic is None:
            raise unknown_topic(name)
        return topic

    def by_id(self, topic_id: TopicId) -> Topic | None:
        """The topic of that incarnation, if it still exists; as of the last refresh."""
        return self._by_id.get(topic_id)

    def list(self) -> list[Topic]:
        """Every topic, sorted by name; as of the last refresh."""
        # No lock: a look at the table that hangs holds it, and acks come here.
        return sorted(self._topics.values(), key=lambda topic: topic.topic)

    @property
    def names(self) -> Mapping[str, str]:
        """Topic id → name, as of the last refresh."""
        return self._names

    def create(self, name: str, /, **config: Any) -> tuple[Topic, bool]:
        """Create the topic, or find the same: (topic, created).

        Raises `TopicExists` if there is one with other settings, `InvalidName`, `InvalidRequest`.
        """
        full = checked_config(checked_name(name, "topic"), config)
        self._check_format(full)

        def judge() -> dict[str, Any] | None:
            if not is_new(name, full, self._topics):
                return None
            made = {"topic_id": uuid.uuid4().hex, "deleted": False, "closed_until": None}
            return made | full

        created = self._change(name, judge)
        return self._topics[name], created

    def alter(self, name: str, /, **changes: Any) -> Topic:
        """Change settings of the topic; partitions may only grow."""

        def judge() -> dict[str, Any] | None:
            found = self.get(name)
            full = altered(found, changes, self._topics, self._wall())
            if full is not None:
                self._check_format(full)
            return None if full is None else {"topic_id": found.topic_id, "deleted": False} | full

        self._change(name, judge)
        return self._topics[name]

    def delete(self, name: str) -> None:
        """Delete the topic: its records are not ordered or delivered any more."""

        def judge() -> dict[str, Any] | None:
            found = self.get(name)
            return {"topic_id": found.topic_id, "deleted": True} | found.config

        self._change(name, judge)

    def _check_format(self, full: Mapping[str, Any]) -> None:
        """Raise `OlderFormat` if releases that use this root would not understand the settings."""
        said = [name for name in OF_VALUES if full[name] is not None]
        if said and VALUE_SCHEMAS.name not in identity_of(self._store).format.features:
            raise OlderFormat(
                f"{self._store.uri} does not have the feature {VALUE_SCHEMAS.name}, which"
                f" {min(said)} needs",
                hint=f"`lakequeue upgrade --check --root {self._store.uri}` says what it takes",
            )

    def _change(self, name: str, judge: Callable[[], dict[str, Any] | None]) -> bool:
        """Commit the row that `judge` asks for; judge anew whenever another was faster."""
        with self._lock:
            self.refresh()
            while (wanted := judge()) is not None:
                before = self._newest.get(name)
                row = wanted | {
                    "topic": name,
                    "version": 0 if before is None else before["version"] + 1,
                    "changed_at": self._wall(),
                }
                add = write_data_file(
                    self._store,
                    TOPICS.name,
                    pa.Table.from_pylist([row], schema=TOPICS.arrow),
                    {},
                    TOPICS,
                )
                sequence = self._table.txns.get(TOPICS_TXN, 0) + 1
                try:
                    self._table.commit([add, Txn(TOPICS_TXN, sequence)], {"topic": name})
                except (CommitConflict, TailLost) as other:
                    # The table is past what others have committed; the cache is not.
                    self._behind = True
                    if other.stored == "no":
                        self._store.delete(f"{TOPICS.name}/{add.path}")
                    self._reload()
                    continue
                self._remember(row)
                self._index()
                self._changed(self.version)
                return True
            return False

    def _reload(self) -> bool:
        self._behind = True
        before = self._table.version
        files = self._table.open().files
        self._table.make_durable()
        for add in files.values():
            self._read(add)
        self._index()
        self._behind = False
        return self._table.version != before

    def _apply(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            for add in commit.adds:
                if add.data_change:
                    self._read(add)
        if commits:
            self._index()

    def _read(self, add: Add) -> None:
        rows = read_data_file(self._store, TOPICS.name, add.path, vector=add.deletion_vector)
        # Nobody here asks when, and for a moment of time Arrow loads pandas: a quarter of what a
        # process takes to start that plans a query.
        names = [name for name in rows.column_names if name != "changed_at"]
        for row in rows.select(names).to_pylist():
            self._remember(row)

    def _remember(self, row: dict[str, Any]) -> None:
        kind, text = row.get("value_schema_type"), row["value_schema"]
        if kind in WITH_VERSIONS and text is not None:
            schemas = self._schemas.setdefault(row["topic_id"], {})
            schemas[row["version"]] = EarlierSchema(kind, text)
        known = self._newest.get(row["topic"])
        if known is None or known["version"] < row["version"]:
            self._newest[row["topic"]] = row

    def _index(self) -> None:
        # Replaced whole, so that readers need no lock.
        self._topics = {
            name: Topic.of_row(row | {"earlier_schemas": self._earlier(row)})
            for name, row in self._newest.items()
            if not row["deleted"]
        }
        self._by_id = {topic.topic_id: topic for topic in self._topics.values()}
        self._names = {str(topic.topic_id): topic.topic for topic in self._topics.values()}

    def _earlier(self, row: Mapping[str, Any]) -> tuple[EarlierSchema, ...]:
        schemas = self._schemas.get(row["topic_id"], {})
        # Of equal ones the last: it may have come back.
        each = dict.fromkeys(schemas[version] for version in sorted(schemas, reverse=True))
        each.pop(EarlierSchema(row.get("value_schema_type") or "", row["value_schema"] or ""), None)
        return tuple(reversed(each))
