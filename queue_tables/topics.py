"""The topics of a queue: created, altered and deleted by compare-and-set on the `topics` table.

Every change is one commit of one row at exactly the version after the one that was judged. Of two
processes that change topics at once one lands; the other reads what landed, and judges again.
A topic that is created again after a deletion is a new incarnation, with a new `topic_id`.
"""

from __future__ import annotations

import difflib
import json
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from lakequeue.clock import WallClock, wall_micros
from lakequeue.errors import CommitConflict, InvalidRequest, TailLost, TopicExists, UnknownTopic
from lakequeue.records import TopicId, Version, checked_name
from lakequeue.wire import TopicChanges, TopicConfig
from queue_tables.delta_log import Commit, Txn
from queue_tables.parquet import read_data_file, write_data_file
from queue_tables.root import QueueRoot
from queue_tables.schemas import TOPICS
from queue_tables.table import TableLog


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. Times are milliseconds, sizes bytes, `None` means no limit."""

    topic: str
    topic_id: TopicId
    version: int
    partitions: int
    partitioner: str
    retention_ms: int | None
    ttl_ms: int | None
    dedup_window_ms: int
    max_record_bytes: int | None
    value_schema: str | None
    on_expired: str
    dead_letter_topic: str | None
    max_attempts: int | None
    backoff_ms: int | None
    backoff_max_ms: int | None
    backoff_jitter_percent: int | None

    @property
    def dead_letters(self) -> str:
        """Name of the topic that its dead records go to; it may not exist yet."""
        return self.dead_letter_topic or default_dead_letters(self.topic)

    @property
    def config(self) -> dict[str, Any]:
        """What was chosen by whoever created or altered it."""
        fields = asdict(self)
        return {name: fields[name] for name in TopicConfig.model_fields}


# -- rules ----------------------------------------------------------------------------------------


def checked_config(topic: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The full configuration of a new topic; raise `InvalidRequest` naming the field."""
    full = _checked(topic, TopicConfig, config).model_dump()
    _check_together(topic, full)
    return full


def checked_change(topic: Topic, changes: Mapping[str, Any]) -> dict[str, Any]:
    """The full configuration after `changes`; raise `InvalidRequest` naming the field."""
    _checked(topic.topic, TopicChanges, changes)
    full = _checked(topic.topic, TopicConfig, topic.config | dict(changes)).model_dump()
    if full["partitions"] < topic.partitions:
        raise InvalidRequest(
            f"topic {topic.topic!r} has {topic.partitions} partitions, not {full['partitions']} "
            "or fewer: partitions only grow",
            hint="create another topic and copy the records",
            field="partitions",
        )
    _check_together(topic.topic, full)
    return full


def default_dead_letters(topic: str) -> str:
    """The dead-letter topic of a topic that names none."""
    return f"{topic}.dlq"


def check_dead_letters(topic: str, full: Mapping[str, Any], others: Mapping[str, Topic]) -> None:
    """Raise `InvalidRequest` if dead records of `topic` (settings `full`) could come back to it.

    `others` are the topics that exist. A record that dies again and again would go round for ever.
    """
    path = [topic, full["dead_letter_topic"] or default_dead_letters(topic)]
    while path[-1] not in path[:-1]:
        following = others.get(path[-1])
        if following is None:
            return
        path.append(following.dead_letters)
    if path[-1] == topic:
        raise InvalidRequest(
            f"topic {topic!r}: dead letters would go in a circle: {' → '.join(path)}",
            hint="name another dead_letter_topic",
            field="dead_letter_topic",
        )


def _checked(topic: str, model: type[BaseModel], config: Mapping[str, Any]) -> BaseModel:
    for name in config:
        if name not in model.model_fields:
            near = difflib.get_close_matches(name, model.model_fields, n=1)
            also = f"did you mean {near[0]!r}?" if near else ""
            known = f"a topic has {', '.join(model.model_fields)}"
            raise InvalidRequest(
                f"topic {topic!r}: {name!r} is no setting that can be given here",
                hint=f"{also} {known}".strip(),
                field=name,
            )
    try:
        return model.model_validate(dict(config), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InvalidRequest(
            f"topic {topic!r}: {field} = {first['input']!r}: {first['msg']}",
            hint=f"give another {field}",
            field=field,
        ) from error


def _check_together(topic: str, full: Mapping[str, Any]) -> None:
    retention_ms, window_ms = full["retention_ms"], full["dedup_window_ms"]
    if retention_ms is not None and retention_ms < window_ms:
        # The index of ids is rebuilt from the log: what it remembers must still be there.
        raise InvalidRequest(
            f"topic {topic!r}: retention_ms {retention_ms} is below dedup_window_ms {window_ms}",
            hint="raise retention_ms, or lower dedup_window_ms",
            field="retention_ms",
        )
    pause_ms, longest_ms = full["backoff_ms"], full["backoff_max_ms"]
    if pause_ms is not None and longest_ms is not None and longest_ms < pause_ms:
        raise InvalidRequest(
            f"topic {topic!r}: backoff_max_ms {longest_ms} is below backoff_ms {pause_ms}",
            hint="raise backoff_max_ms, or lower backoff_ms",
            field="backoff_max_ms",
        )
    if full["dead_letter_topic"] is not None:
        checked_name(full["dead_letter_topic"], "dead_letter_topic")
    if full["value_schema"] is not None:
        try:
            json.loads(full["value_schema"])
        except ValueError as error:
            raise InvalidRequest(
                f"topic {topic!r}: value_schema is no JSON: {error}",
                hint="give a JSON Schema as text",
                field="value_schema",
            ) from error


# -- the table ------------------------------------------------------------------------------------


class TopicStore:
    """Topics of one root, cached; `refresh()` costs one probe when nothing has changed.

    Thread-safe. Every call that changes something refreshes first.
    """

    def __init__(self, root: QueueRoot, wall: WallClock = wall_micros) -> None:
        self._store = root.store
        self._wall = wall
        self._lock = threading.RLock()
        self._table = TableLog(root.store, TOPICS.name).open()
        self._newest: dict[str, dict[str, Any]] = {}
        self._topics: dict[str, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
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

    def get(self, name: str) -> Topic:
        """The topic of that name; looks at the table once before it raises `UnknownTopic`."""
        topic = self._topics.get(name)
        if topic is None:
            self.refresh()
            topic = self._topics.get(name)
        if topic is None:
            raise UnknownTopic(
                f"topic {name!r} does not exist",
                hint=f"create it: PUT /v1/topics/{name}, or `lakequeue topic create {name}`",
            )
        return topic

    def by_id(self, topic_id: TopicId) -> Topic | None:
        """The topic of that incarnation, if it still exists; as of the last refresh."""
        return self._by_id.get(topic_id)

    def list(self) -> list[Topic]:
        """Every topic, sorted by name; as of the last refresh."""
        with self._lock:
            return sorted(self._topics.values(), key=lambda topic: topic.topic)

    def create(self, name: str, **config: Any) -> tuple[Topic, bool]:
        """Create the topic, or find the same: (topic, created).

        Raises `TopicExists` if there is one with other settings, `InvalidName`, `InvalidRequest`.
        """
        full = checked_config(checked_name(name, "topic"), config)

        def judge() -> dict[str, Any] | None:
            found = self._topics.get(name)
            if found is None:
                check_dead_letters(name, full, self._topics)
                return {"topic_id": uuid.uuid4().hex, "deleted": False} | full
            if found.config != full:
                other = [f"{k} {found.config[k]!r}" for k in full if found.config[k] != full[k]]
                raise TopicExists(
                    f"topic {name!r} exists with {', '.join(other)}",
                    hint="alter it (PATCH), or choose another name",
                )
            return None

        created = self._change(name, judge)
        return self._topics[name], created

    def alter(self, name: str, **changes: Any) -> Topic:
        """Change settings of the topic; partitions may only grow."""

        def judge() -> dict[str, Any] | None:
            found = self.get(name)
            full = checked_change(found, changes)
            if full == found.config:
                return None
            check_dead_letters(name, full, self._topics)
            return {"topic_id": found.topic_id, "deleted": False} | full

        self._change(name, judge)
        return self._topics[name]

    def delete(self, name: str) -> None:
        """Delete the topic: its records are not ordered or delivered any more."""

        def judge() -> dict[str, Any] | None:
            found = self.get(name)
            return {"topic_id": found.topic_id, "deleted": True} | found.config

        self._change(name, judge)

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
                sequence = self._table.txns.get("topics", 0) + 1
                try:
                    self._table.commit([add, Txn("topics", sequence)], {"topic": name})
                except (CommitConflict, TailLost) as other:
                    if other.stored == "no":
                        self._store.delete(f"{TOPICS.name}/{add.path}")
                    self._reload()
                    continue
                self._remember(row)
                self._index()
                return True
            return False

    def _reload(self) -> bool:
        before = self._table.version
        files = self._table.open().files
        self._table.make_durable()
        for path in files:
            self._read(path)
        self._index()
        self._behind = False
        return self._table.version != before

    def _apply(self, commits: Sequence[Commit]) -> None:
        for commit in commits:
            for add in commit.adds:
                if add.data_change:
                    self._read(add.path)
        if commits:
            self._index()

    def _read(self, path: str) -> None:
        for row in read_data_file(self._store, TOPICS.name, path).to_pylist():
            self._remember(row)

    def _remember(self, row: dict[str, Any]) -> None:
        known = self._newest.get(row["topic"])
        if known is None or known["version"] < row["version"]:
            self._newest[row["topic"]] = row

    def _index(self) -> None:
        # Replaced whole, so that readers need no lock.
        fields = Topic.__dataclass_fields__
        self._topics = {
            name: Topic(**{field: row[field] for field in fields})
            for name, row in self._newest.items()
            if not row["deleted"]
        }
        self._by_id = {topic.topic_id: topic for topic in self._topics.values()}
